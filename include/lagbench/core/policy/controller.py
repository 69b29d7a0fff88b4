"""Reject a policy whose flags no controller of the target reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    controller_flags,
)
from lagbench.core.keda.loop.handover import CONTROLLER, is_handed_over
from lagbench.errors import WrongInput


def require_own_controller(manifest: Mapping[str, Any], *, where: str, is_embedded: bool) -> None:
    """Reject flags of the HPA's controller on a cluster where Kubernetes' own one drives the HPA.

    That one has one sync and one tolerance for all HPAs, and does not read the annotations.

    :raises WrongInput: the policy sets a flag, and lagbench's controller does not drive it.
    """
    flags = controller_flags(manifest, where=where)
    if is_embedded or not flags.are_set:
        return
    if manifest.get("kind") == "ScaledObject" and is_handed_over(manifest):
        return
    name = TOLERANCE_ANNOTATION if flags.sync_seconds is None else SYNC_ANNOTATION
    raise WrongInput(
        where=where,
        field=f"metadata.annotations[{name}]",
        value=manifest["metadata"]["annotations"][name],
        allowed="no value on a cluster, where kube-controller-manager has one for all HPAs (or "
        f"hand the ScaledObject over to {CONTROLLER}, docs/kubernetes.md)",
    )
