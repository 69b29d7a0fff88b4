"""The table of kinds that localkube serves, one row per kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from lagbench.localkube.objects import JsonObject
from lagbench.localkube.storage import defaults, stateful_sets, validation

Defaulter: TypeAlias = Callable[[JsonObject], None]
Validator: TypeAlias = Callable[[JsonObject], "list[tuple[str, str]]"]
ChangeValidator: TypeAlias = Callable[[JsonObject, JsonObject], "list[tuple[str, str]]"]

_ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _nothing_to_default(_obj: JsonObject) -> None:
    """Leave the object as it is."""


def _always_valid(_obj: JsonObject) -> list[tuple[str, str]]:
    return []


def _may_change(_before: JsonObject, _after: JsonObject) -> list[tuple[str, str]]:
    return []


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind: its path, its capabilities, its defaults and its rules."""

    group: str
    version: str
    kind: str
    plural: str
    short_names: tuple[str, ...] = ()
    namespaced: bool = True
    has_status: bool = False
    has_scale: bool = False
    has_log: bool = False
    has_signal: bool = False  # localkube's own: no cluster serves it
    is_custom: bool = (
        False  # a CustomResourceDefinition elsewhere: lists atomic, no strategic merge
    )
    in_all: bool = False  # part of `kubectl get all`
    verbs: tuple[str, ...] = _ALL_VERBS
    apply_defaults: Defaulter = field(default=_nothing_to_default, compare=False)
    find_faults: Validator = field(default=_always_valid, compare=False)
    find_change_faults: ChangeValidator = field(default=_may_change, compare=False)

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_plural(self) -> str:
        """``deployments.apps``, the name of a kind in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The path prefix of the kind."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"


NAMESPACE = Resource(
    "", "v1", "Namespace", "namespaces", ("ns",), namespaced=False, has_status=True
)
POD = Resource(
    "",
    "v1",
    "Pod",
    "pods",
    ("po",),
    has_status=True,
    has_log=True,
    has_signal=True,
    in_all=True,
    apply_defaults=defaults.default_pod,
    find_faults=validation.pod_faults,
)
SERVICE = Resource(
    "",
    "v1",
    "Service",
    "services",
    ("svc",),
    has_status=True,
    in_all=True,
    apply_defaults=defaults.default_service,
    find_faults=validation.service_faults,
)
CONFIG_MAP = Resource("", "v1", "ConfigMap", "configmaps", ("cm",))
SECRET = Resource("", "v1", "Secret", "secrets", apply_defaults=defaults.default_secret)
SERVICE_ACCOUNT = Resource("", "v1", "ServiceAccount", "serviceaccounts", ("sa",))
EVENT = Resource("", "v1", "Event", "events", ("ev",))
DEPLOYMENT = Resource(
    "apps",
    "v1",
    "Deployment",
    "deployments",
    ("deploy",),
    has_status=True,
    has_scale=True,
    in_all=True,
    apply_defaults=defaults.default_deployment,
    find_faults=validation.deployment_faults,
)
# No controller makes ReplicaSets here (a Deployment owns its pods); kubectl describe lists them.
REPLICA_SET = Resource(
    "apps", "v1", "ReplicaSet", "replicasets", ("rs",), verbs=("get", "list", "watch")
)
STATEFUL_SET = Resource(
    "apps",
    "v1",
    "StatefulSet",
    "statefulsets",
    ("sts",),
    has_status=True,
    has_scale=True,
    in_all=True,
    apply_defaults=stateful_sets.default_stateful_set,
    find_faults=stateful_sets.stateful_set_faults,
    find_change_faults=stateful_sets.stateful_set_change_faults,
)
# The pod templates that a StatefulSet has had; only its controller writes them.
CONTROLLER_REVISION = Resource(
    "apps", "v1", "ControllerRevision", "controllerrevisions", verbs=("get", "list", "watch")
)
JOB = Resource(
    "batch",
    "v1",
    "Job",
    "jobs",
    has_status=True,
    in_all=True,
    apply_defaults=defaults.default_job,
    find_faults=validation.job_faults,
)
AUTOSCALER = Resource(
    "autoscaling",
    "v2",
    "HorizontalPodAutoscaler",
    "horizontalpodautoscalers",
    ("hpa",),
    has_status=True,
    in_all=True,
    apply_defaults=defaults.default_autoscaler,
    find_faults=validation.autoscaler_faults,
)
SCALED_OBJECT = Resource(
    "keda.sh",
    "v1alpha1",
    "ScaledObject",
    "scaledobjects",
    ("so",),
    has_status=True,
    is_custom=True,
)
TRIGGER_AUTHENTICATION = Resource(
    "keda.sh",
    "v1alpha1",
    "TriggerAuthentication",
    "triggerauthentications",
    ("ta",),
    has_status=True,
    is_custom=True,
)
CLUSTER_TRIGGER_AUTHENTICATION = Resource(
    "keda.sh",
    "v1alpha1",
    "ClusterTriggerAuthentication",
    "clustertriggerauthentications",
    ("cta", "clustertriggerauth"),
    namespaced=False,
    has_status=True,
    is_custom=True,
)
LEASE = Resource("coordination.k8s.io", "v1", "Lease", "leases")
DISRUPTION_BUDGET = Resource(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", ("pdb",), has_status=True
)
POD_METRICS = Resource("metrics.k8s.io", "v1beta1", "PodMetrics", "pods", verbs=("get", "list"))

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
    TRIGGER_AUTHENTICATION,
    CLUSTER_TRIGGER_AUTHENTICATION,
    LEASE,
    DISRUPTION_BUDGET,
    POD_METRICS,
)

_BY_PATH = {(row.group, row.version, row.plural): row for row in TABLE}


def resource_at(group: str, version: str, plural: str) -> Resource | None:
    """Return the row served at a path, or None."""
    return _BY_PATH.get((group, version, plural))
