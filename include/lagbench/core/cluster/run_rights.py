"""List a run account's rights in its namespace; k8s/base/runner/rbac.yaml grants them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.cluster.policy_manifest import asks_lag_scaler
from lagbench.core.cluster.settings import NO_STORAGE, ClusterSettings
from lagbench.core.scenario.consumer_kind import KindName

_CYCLE = ("get", "list", "create", "patch", "delete")
_WATCH = ("get", "list", "watch")
"""Granted by the recorder's Role: an account can grant only rights that it has itself."""


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on one resource of an API group (empty: the core group)."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    subresource: str = ""

    @property
    def resource_text(self) -> str:
        """The resource as a Role writes it, with its group."""
        part = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource}{part}.{self.group}" if self.group else f"{self.resource}{part}"


RUN_RIGHTS = (
    Right("coordination.k8s.io", "leases", ("get", "create", "update", "delete")),
    Right("apps", "deployments", (*_CYCLE, "watch")),
    Right("apps", "statefulsets", (*_CYCLE, "watch")),
    Right("batch", "jobs", _CYCLE),
    Right("keda.sh", "scaledobjects", (*_CYCLE, "watch")),
    Right("autoscaling", "horizontalpodautoscalers", (*_CYCLE, "watch")),
    Right("", "services", _CYCLE),
    Right("", "configmaps", ("list", "create", "patch", "delete")),
    Right("policy", "poddisruptionbudgets", _CYCLE),
    Right("", "serviceaccounts", _CYCLE),
    Right("rbac.authorization.k8s.io", "roles", _CYCLE),
    Right("rbac.authorization.k8s.io", "rolebindings", _CYCLE),
    Right("", "pods", _WATCH),
    Right("", "events", _WATCH),
    Right("", "pods", ("get",), "log"),
)
CLAIM_RIGHT = Right("", "persistentvolumeclaims", ("get", "create"))
"""For what outlives its pod: the lag scaler's windows, the checkpoint of a consumer on Spark."""
SECRET_RIGHT = Right("", "secrets", ("create",))
"""For a consumer on Spark, whose pods know each other by a Secret; who creates may not read."""


def rights_of_run(
    cluster: ClusterSettings,
    policies: Sequence[Mapping[str, Any]],
    kinds: Collection[KindName] = (),
) -> tuple[Right, ...]:
    """Return the rights that a run under the ``policies`` needs; empty: they are not known yet.

    :param kinds: of the run's consumers.
    """
    is_on_spark = "spark" in kinds
    makes_claim = is_on_spark or any(map(asks_lag_scaler, policies))
    is_stored = makes_claim and cluster.storage_class != NO_STORAGE
    more = ((CLAIM_RIGHT, is_stored), (SECRET_RIGHT, is_on_spark))
    return (*RUN_RIGHTS, *(right for right, is_needed in more if is_needed))
