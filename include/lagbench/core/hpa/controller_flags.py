"""Flags of the HPA's controller that a policy sets for itself, as annotations.

In Kubernetes they are flags of kube-controller-manager, one value for all HPAs, and a managed
cluster does not let its users set them. lagbench's own controller reads them from each object:

* ``lagbench.io/hpa-sync-seconds: "5"``: the time between two syncs;
* ``lagbench.io/hpa-tolerance: "0"``: the part of the target within which nothing changes;
* ``lagbench.io/kubernetes: "1.37"``: the version whose controller is followed.

KEDA copies the annotations of a ScaledObject to its HPA.

A cluster has a version of its own. ``GATES`` says what the versions differ in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.core.hpa.hpa_object import HpaBehavior
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, HPA_TOLERANCE
from lagbench.errors import WrongInput

SYNC_ANNOTATION = "lagbench.io/hpa-sync-seconds"

TOLERANCE_ANNOTATION = "lagbench.io/hpa-tolerance"

KUBERNETES_ANNOTATION = "lagbench.io/kubernetes"

KUBERNETES_VERSIONS = ("1.34", "1.35", "1.36", "1.37")
"""Those whose HPA is known, oldest first."""

DEFAULT_KUBERNETES = "1.37"
"""Followed where nothing names another: by the embedded bench, predictions and checks of files."""

GATES = {"HPAConfigurableTolerance": "1.35", "HPAGeneration": "1.37", "HPAScaleToZero": "1.37"}
"""The version from which a gate of the HPA is on by default."""

SYNCS_OF_A_PERIOD = (1, 3, 5, 15)
"""Divisors of Kubernetes' 15 s, so that a sync every 15 s stays one, and a run's phase is known."""


def followed_version(git_version: str) -> str:
    """Return the version by which an API server's ``v1.36.2`` is followed: the nearest known.

    One that cannot be read is followed as the oldest.
    """
    found = re.match(r"v?(\d+)\.(\d+)", git_version)
    if found is None:
        return KUBERNETES_VERSIONS[0]
    major, minor = map(int, found.groups())
    known = [int(version.partition(".")[2]) for version in KUBERNETES_VERSIONS]
    return f"1.{min(max(minor if major == 1 else math.inf, known[0]), known[-1])}"


def has_gate(name: str, version: str) -> bool:
    """Return whether a gate of ``GATES`` is on by default in a followed version."""
    return KUBERNETES_VERSIONS.index(version) >= KUBERNETES_VERSIONS.index(GATES[name])


@dataclass(frozen=True, slots=True)
class Tolerances:
    """The parts of the target, above and below it, within which nothing changes."""

    up: float = HPA_TOLERANCE
    down: float = HPA_TOLERANCE

    def is_within(self, ratio: float) -> bool:
        """Return whether a usage ratio is so near to one that nothing should change."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


@dataclass(frozen=True, slots=True)
class ControllerFlags:
    """The flags that an object sets for itself; None: the controller's own."""

    sync_seconds: float | None = None
    tolerance: float | None = None
    kubernetes: str | None = None

    @property
    def version(self) -> str:
        """Return the version that is followed."""
        return self.kubernetes or DEFAULT_KUBERNETES

    def has_gate(self, name: str) -> bool:
        """Return whether a gate of ``GATES`` is on in the version that is followed."""
        return has_gate(name, self.version)

    @property
    def sync_seconds_in_force(self) -> float:
        """Return the time between two syncs, that of Kubernetes if the object sets none."""
        return float(HPA_SYNC_SECONDS) if self.sync_seconds is None else self.sync_seconds

    def tolerances(
        self, behavior: HpaBehavior | None, controllers: float = HPA_TOLERANCE
    ) -> Tolerances:
        """Return the tolerances of an HPA with this behavior; ``controllers``: without a flag.

        A version that drops those of ``behavior`` stores none, and a run is refused there.
        """
        usual = controllers if self.tolerance is None else self.tolerance
        if behavior is None or not self.has_gate("HPAConfigurableTolerance"):
            return Tolerances(usual, usual)
        up, down = behavior.scale_up.tolerance, behavior.scale_down.tolerance
        return Tolerances(usual if up is None else up, usual if down is None else down)


def controller_flags(manifest: Mapping[str, Any], *, where: str) -> ControllerFlags:
    """Return the flags that a ScaledObject or an HPA sets for itself.

    :raises WrongInput: a value is none of the allowed ones.
    """
    metadata = manifest.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    annotations = found if isinstance(found, Mapping) else {}
    flags = ControllerFlags(
        sync_seconds=_number(annotations, SYNC_ANNOTATION),
        tolerance=_number(annotations, TOLERANCE_ANNOTATION),
        kubernetes=annotations.get(KUBERNETES_ANNOTATION),
    )
    if flags.kubernetes not in (None, *KUBERNETES_VERSIONS):
        raise _wrong(annotations, KUBERNETES_ANNOTATION, " or ".join(KUBERNETES_VERSIONS), where)
    if flags.sync_seconds is not None and flags.sync_seconds not in SYNCS_OF_A_PERIOD:
        allowed = f"{', '.join(map(str, SYNCS_OF_A_PERIOD))} (seconds)"
        raise _wrong(annotations, SYNC_ANNOTATION, allowed, where)
    if flags.tolerance is not None and not 0 <= flags.tolerance < 1:
        raise _wrong(annotations, TOLERANCE_ANNOTATION, "a number from 0 to below 1", where)
    return flags


def version_of(manifest: Mapping[str, Any], otherwise: str = DEFAULT_KUBERNETES) -> str:
    """Return the version that an object names, as an API server follows it; ``otherwise``: none."""
    metadata = manifest.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    found = annotations.get(KUBERNETES_ANNOTATION) if isinstance(annotations, Mapping) else None
    return found if found in KUBERNETES_VERSIONS else otherwise


def _number(annotations: Mapping[str, Any], name: str) -> float | None:
    """Return the annotation as a number; NaN if it is none, which no range has."""
    if name not in annotations:
        return None
    try:
        return float(annotations[name])
    except (TypeError, ValueError):
        return math.nan


def _wrong(annotations: Mapping[str, Any], name: str, allowed: str, where: str) -> WrongInput:
    field = f"metadata.annotations[{name}]"
    return WrongInput(where=where, field=field, value=annotations[name], allowed=allowed)


def metric_text(metric: Mapping[str, Any], part: str) -> str:
    """Return the name with the values of ``part``, ``current`` or ``target``."""
    name, found = metric_part(metric, part)
    values = ", ".join(f"{key} {value}" for key, value in sorted(found.items()) if key != "type")
    return f"{name}: {values}" if values else f"{name}: unknown"


def metric_part(metric: Mapping[str, Any], part: str) -> tuple[str, Mapping[str, Any]]:
    """Return the metric's name, and its ``current`` or ``target`` as stored."""
    kind = metric.get("type", "")
    detail = metric.get(kind[:1].lower() + kind[1:]) or {}
    name = detail.get("name") or (detail.get("metric") or {}).get("name") or kind
    return name, detail.get(part) or {}
