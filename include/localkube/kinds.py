"""The kinds that localkube serves, a row each, and the paths that lead to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from localkube.kube_objects import JsonObject, KubeObject, Write, no_such_path
from localkube.storage import defaults_and_rules as rules

Column: TypeAlias = tuple[str, Callable[[KubeObject], object]]
Select: TypeAlias = "Callable[[Resource, str], Sequence[KubeObject]]"
Admit: TypeAlias = Callable[[KubeObject, Write, Select], None]
"""Change an object into its stored form, or raise ApiError; given what else is stored."""

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_READ_ONLY = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its path, its capabilities, its defaults and its rules."""

    api_version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    is_custom: bool = False
    """A CustomResourceDefinition elsewhere: lists atomic, no strategic merge."""
    in_all: bool = False
    """Part of ``kubectl get all``."""
    verbs: tuple[str, ...] = _ALL_VERBS
    columns: tuple[Column, ...] = field(default=(), compare=False)
    """Of ``kubectl get``, between the name and the age."""
    apply_defaults: Callable[[JsonObject], None] = field(default=lambda _: None, compare=False)
    find_faults: Callable[[JsonObject], rules.Faults] = field(default=lambda _: [], compare=False)
    find_change_faults: Callable[[JsonObject, JsonObject], rules.Faults] = field(
        default=lambda _before, _after: [], compare=False
    )
    admit: Admit | None = field(default=None, compare=False)
    """The part of an admission webhook: it completes a written object, or raises ApiError."""

    @property
    def group(self) -> str:
        """``apps``, or empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """``v1``."""
        return self.api_version.rpartition("/")[2]

    @property
    def has_status(self) -> bool:
        """True: the status is written through its subresource only."""
        return "status" in self.subresources

    @property
    def qualified_plural(self) -> str:
        """``deployments.apps``, the name of a kind in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The path prefix of the kind."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


def custom_kind(api_version: str, kind: str, plural: str, *short: str, **more: Any) -> Resource:
    """Return the row of a kind that a CustomResourceDefinition adds to a cluster."""
    return Resource(
        api_version, kind, plural, short, subresources=("status",), is_custom=True, **more
    )


def _workload(api_version: str, kind: str, plural: str, *short: str, **given: Any) -> Resource:
    more: dict[str, Any] = {"subresources": ("status",), "in_all": True, **given}
    return Resource(api_version, kind, plural, short, **more)


NAMESPACE = Resource(
    "v1", "Namespace", "namespaces", ("ns",), namespaced=False, subresources=("status", "finalize")
)
POD = _workload(
    *("v1", "Pod", "pods", "po"),
    subresources=("status", "log", "signal"),  # signal is localkube's own: no cluster serves it
    apply_defaults=rules.default_pod,
    find_faults=rules.pod_faults,
)
SERVICE = _workload(
    *("v1", "Service", "services", "svc"),
    apply_defaults=rules.default_service,
    find_faults=rules.service_faults,
)
CONFIG_MAP = Resource("v1", "ConfigMap", "configmaps", ("cm",))
SECRET = Resource("v1", "Secret", "secrets", apply_defaults=rules.default_secret)
EVENT = Resource("v1", "Event", "events", ("ev",))
DEPLOYMENT = _workload(
    *("apps/v1", "Deployment", "deployments", "deploy"),
    subresources=("status", "scale"),
    apply_defaults=rules.default_deployment,
    find_faults=rules.deployment_faults,
)
STATEFUL_SET = _workload(
    *("apps/v1", "StatefulSet", "statefulsets", "sts"),
    subresources=("status", "scale"),
    apply_defaults=rules.default_stateful_set,
    find_faults=rules.stateful_set_faults,
    find_change_faults=rules.stateful_set_change_faults,
)
# The pod templates that a StatefulSet has had; only its controller writes them.
CONTROLLER_REVISION = Resource(
    "apps/v1", "ControllerRevision", "controllerrevisions", verbs=_READ_ONLY
)
JOB = _workload(
    *("batch/v1", "Job", "jobs"), apply_defaults=rules.default_job, find_faults=rules.job_faults
)
AUTOSCALER = _workload(
    *("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa"),
    apply_defaults=rules.default_autoscaler,
    find_faults=rules.autoscaler_faults,
)
POD_METRICS = Resource("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=("get", "list"))
BUILT_IN: tuple[Resource, ...] = (
    *(NAMESPACE, POD, SERVICE, CONFIG_MAP, SECRET),
    Resource("v1", "ServiceAccount", "serviceaccounts", ("sa",)),
    *(EVENT, DEPLOYMENT),
    # No controller makes ReplicaSets here (a Deployment owns its pods); kubectl describe lists them
    Resource("apps/v1", "ReplicaSet", "replicasets", ("rs",), verbs=_READ_ONLY),
    *(STATEFUL_SET, CONTROLLER_REVISION, JOB, AUTOSCALER),
    Resource("coordination.k8s.io/v1", "Lease", "leases"),
    Resource(
        *("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",)),
        subresources=("status",),
    ),
    POD_METRICS,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request; parts that the path does not name are empty strings."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str, kinds: Sequence[Resource] = BUILT_IN) -> Target:
    """Return the target of a path such as ``/apis/apps/v1/namespaces/x/deployments/y/scale``."""
    parts = [part for part in path.split("/") if part]
    if len(parts) >= 3 and parts[0] == "api":
        api_version, rest = parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        api_version, rest = f"{parts[1]}/{parts[2]}", parts[3:]
    else:
        raise no_such_path(path)
    namespace = ""
    is_namespace_itself = parts[0] == "api" and (len(rest) < 3 or rest[2] in NAMESPACE.subresources)
    if rest[0] == "namespaces" and not is_namespace_itself:
        namespace, rest = rest[1], rest[2:]
    name, subresource = (*rest[1:], "", "")[:2]
    for row in kinds:
        is_it = rest and (row.api_version, row.plural) == (api_version, rest[0]) and len(rest) <= 3
        is_placed = bool(namespace) is row.namespaced or not (namespace or name)
        if is_it and is_placed and (not subresource or subresource in row.subresources):
            return Target(row, namespace, name, subresource)
    raise no_such_path(path)
