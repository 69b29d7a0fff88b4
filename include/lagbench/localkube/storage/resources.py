"""The table of kinds that localkube serves, one row per kind, and the paths that lead to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lagbench.localkube.kube_objects import JsonObject, no_such_path
from lagbench.localkube.storage import defaults_and_rules as defaults
from lagbench.localkube.storage import defaults_and_rules as validation

Faults: TypeAlias = validation.Faults

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
    apply_defaults: Callable[[JsonObject], None] = field(default=lambda _: None, compare=False)
    find_faults: Callable[[JsonObject], Faults] = field(default=lambda _: [], compare=False)
    find_change_faults: Callable[[JsonObject, JsonObject], Faults] = field(
        default=lambda _before, _after: [], compare=False
    )

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
        """Return whether the status is written through its subresource only."""
        return "status" in self.subresources

    @property
    def qualified_plural(self) -> str:
        """``deployments.apps``, the name of a kind in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The path prefix of the kind."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"


def _workload(api_version: str, kind: str, plural: str, *short: str, **given: Any) -> Resource:
    more: dict[str, Any] = {"subresources": ("status",), "in_all": True, **given}
    return Resource(api_version, kind, plural, short, **more)


def _custom(kind: str, plural: str, *short: str, namespaced: bool = True) -> Resource:
    return Resource(
        "keda.sh/v1alpha1", kind, plural, short, namespaced, ("status",), is_custom=True
    )


NAMESPACE = Resource(
    "v1", "Namespace", "namespaces", ("ns",), namespaced=False, subresources=("status", "finalize")
)
POD = _workload(
    "v1",
    "Pod",
    "pods",
    "po",
    subresources=("status", "log", "signal"),  # signal is localkube's own: no cluster serves it
    apply_defaults=defaults.default_pod,
    find_faults=validation.pod_faults,
)
SERVICE = _workload(
    "v1",
    "Service",
    "services",
    "svc",
    apply_defaults=defaults.default_service,
    find_faults=validation.service_faults,
)
CONFIG_MAP = Resource("v1", "ConfigMap", "configmaps", ("cm",))
SECRET = Resource("v1", "Secret", "secrets", apply_defaults=defaults.default_secret)
SERVICE_ACCOUNT = Resource("v1", "ServiceAccount", "serviceaccounts", ("sa",))
EVENT = Resource("v1", "Event", "events", ("ev",))
DEPLOYMENT = _workload(
    "apps/v1",
    "Deployment",
    "deployments",
    "deploy",
    subresources=("status", "scale"),
    apply_defaults=defaults.default_deployment,
    find_faults=validation.deployment_faults,
)
# No controller makes ReplicaSets here (a Deployment owns its pods); kubectl describe lists them.
REPLICA_SET = Resource("apps/v1", "ReplicaSet", "replicasets", ("rs",), verbs=_READ_ONLY)
STATEFUL_SET = _workload(
    "apps/v1",
    "StatefulSet",
    "statefulsets",
    "sts",
    subresources=("status", "scale"),
    apply_defaults=defaults.default_stateful_set,
    find_faults=validation.stateful_set_faults,
    find_change_faults=validation.stateful_set_change_faults,
)
# The pod templates that a StatefulSet has had; only its controller writes them.
CONTROLLER_REVISION = Resource(
    "apps/v1", "ControllerRevision", "controllerrevisions", verbs=_READ_ONLY
)
JOB = _workload(
    "batch/v1",
    "Job",
    "jobs",
    apply_defaults=defaults.default_job,
    find_faults=validation.job_faults,
)
AUTOSCALER = _workload(
    "autoscaling/v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    "hpa",
    apply_defaults=defaults.default_autoscaler,
    find_faults=validation.autoscaler_faults,
)
SCALED_OBJECT = _custom("ScaledObject", "scaledobjects", "so")
POD_METRICS = Resource("metrics.k8s.io/v1beta1", "PodMetrics", "pods", verbs=("get", "list"))

TABLE: tuple[Resource, ...] = (
    NAMESPACE,
    POD,
    SERVICE,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    EVENT,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    CONTROLLER_REVISION,
    JOB,
    AUTOSCALER,
    SCALED_OBJECT,
    _custom("TriggerAuthentication", "triggerauthentications", "ta"),
    _custom(
        "ClusterTriggerAuthentication",
        "clustertriggerauthentications",
        *("cta", "clustertriggerauth"),
        namespaced=False,
    ),
    Resource("coordination.k8s.io/v1", "Lease", "leases"),
    Resource(
        "policy/v1",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        ("pdb",),
        subresources=("status",),
    ),
    POD_METRICS,
)
_BY_PATH = {(row.api_version, row.plural): row for row in TABLE}


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a request; parts that the path does not name are empty strings."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> Target:
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
    resource = _BY_PATH.get((api_version, rest[0])) if rest else None
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path(path)
    name, subresource = (*rest[1:], "", "")[:2]
    if name and resource.namespaced and not namespace:
        raise no_such_path(path)
    if subresource and subresource not in resource.subresources:
        raise no_such_path(path)
    return Target(resource, namespace, name, subresource)
