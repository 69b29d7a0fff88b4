"""The rights that a run's account needs in its namespace; k8s/base/runner/rbac.yaml grants them."""

from __future__ import annotations

from dataclasses import dataclass

_CYCLE = ("get", "list", "create", "patch", "delete")
_WATCH = ("get", "list", "watch")
"""What the recorder's Role grants: nobody may grant what he has not got himself."""


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
    Right("apps", "deployments", (*_CYCLE, "watch")),
    Right("batch", "jobs", _CYCLE),
    Right("keda.sh", "scaledobjects", _CYCLE),
    Right("autoscaling", "horizontalpodautoscalers", (*_CYCLE, "watch")),
    Right("", "services", _CYCLE),
    Right("policy", "poddisruptionbudgets", _CYCLE),
    Right("", "serviceaccounts", _CYCLE),
    Right("rbac.authorization.k8s.io", "roles", _CYCLE),
    Right("rbac.authorization.k8s.io", "rolebindings", _CYCLE),
    Right("", "pods", _WATCH),
    Right("", "events", _WATCH),
    Right("", "pods", ("get",), "log"),
)
