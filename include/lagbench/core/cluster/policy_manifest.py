"""Build the policy of a run: the committed one with the run's Kafka in each trigger on lag."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lag_scaler.rule import LagRule
from lagbench.core.cluster.cluster_settings import (
    IMAGE_FIELD,
    NO_STORAGE,
    SPARK_IMAGE_FIELD,
    ClusterSettings,
)
from lagbench.core.cluster.manifests import Manifest, RunTarget, named
from lagbench.core.keda.triggers.kafka_parameters import (
    KAFKA_SCALING_KEYS,
    KafkaSecurity,
    kafka_metadata_for_run,
)
from lagbench.core.keda.triggers.trigger_parameters import RunSources, metadata_keys
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES, ExternalTrigger
from lagbench.core.policy.policy import require_one_source
from lagbench.core.policy.policy_limits import calls_lag_scaler
from lagbench.core.policy.stream_windows import at_stream_start
from lagbench.core.scenario.actions import ActionKind, LagScalerDown, LastingAction
from lagbench.core.scenario.consumer_kinds import KindName
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.run_names import (
    BOOTSTRAP_ANNOTATION,
    LAG_SCALER,
    LAG_SCALER_NAMES,
    PROMETHEUS,
    RUN_ID_ANNOTATION,
    TELEMETRY_TOPIC_ANNOTATION,
)
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import tail_of
from lagbench.errors import WrongInput

SCALED_OBJECT, HPA = "ScaledObject", "HorizontalPodAutoscaler"
POLICY_KINDS = (SCALED_OBJECT, HPA)


def policy_for_run(
    policy: Mapping[str, Any],
    target: RunTarget,
    *,
    is_embedded: bool = False,
    starts_at_ns: int | None = None,
) -> Manifest:
    """Return the policy with the run's broker, topic and group in each trigger on lag.

    ``starts_at_ns``: the planned start of the stream, in which cron windows are placed.
    Triggers on lag are kafka triggers, external ones that call the lag scaler for Kafka, and
    prometheus triggers; on the embedded bench these query its own Prometheus. A target without a
    kind gets that of the consumers' workload, because KEDA would look for a Deployment.

    All policies of a group get one name, because KEDA rejects a second ScaledObject on a target.
    The target becomes the group's consumers.
    """
    manifest = copy.deepcopy(dict(policy))
    if starts_at_ns is not None:
        manifest = at_stream_start(manifest, starts_at_ns, where="policy")
    kind = manifest.get("kind")
    if kind not in POLICY_KINDS:
        raise WrongInput(
            where="policy", field="kind", value=kind, allowed=" or ".join(POLICY_KINDS)
        )
    names = target.names
    metadata = named(manifest, names.policy_object, target)
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        RUN_ID_ANNOTATION: target.names.run_id,
        TELEMETRY_TOPIC_ANNOTATION: target.names.telemetry_topic,
        BOOTSTRAP_ANNOTATION: target.bootstrap_servers,
    }
    scaled = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    if target.workload != "Deployment" and not scaled.get("kind"):
        scaled["kind"] = target.workload
    if scaled:
        scaled["name"] = names.consumers
    sources = RunSources(
        bootstrap_servers=target.bootstrap_servers,
        topic=target.names.events_topic,
        group=target.names.group,
        prometheus=f"http://{names.own(PROMETHEUS)}.{target.cluster.namespace}:9090"
        if is_embedded
        else None,
    )
    for trigger in (manifest.get("spec") or {}).get("triggers") or []:
        if trigger.get("metadata") is not None:
            trigger["metadata"] = dict(_for_run(trigger)(trigger["metadata"], sources))
    for trigger in _dialling_lag_scaler(manifest):
        port = trigger["metadata"]["scalerAddress"].rpartition(":")[2]
        address = f"{names.own(LAG_SCALER)}.{target.cluster.namespace}:{port}"
        trigger["metadata"] = {**trigger["metadata"], "scalerAddress": address}
    return manifest


def policy_in_place_of(
    policy: Mapping[str, Any], live: Mapping[str, Any] | None, name: str
) -> Manifest:
    """Return the policy under the name of the ``live`` object, on what that one scales and reads.

    How it scales is the policy's. The target, and all that says how each trigger on Kafka's lag
    gets there and what it reads, are those of the live object. None: there is none, all is the
    policy's.

    :raises WrongInput: the live object reads several sources, or the policy several topics.
    """
    manifest = copy.deepcopy(dict(policy))
    manifest["metadata"] = {**manifest["metadata"], "name": name}
    manifest["metadata"].pop("namespace", None)
    if live is None:
        return manifest
    target = live["spec"]["scaleTargetRef"]
    if live["kind"] != manifest["kind"]:
        both = {part: target[part] for part in ("apiVersion", "kind", "name") if part in target}
        target = {**manifest["spec"]["scaleTargetRef"], **both}
    manifest["spec"]["scaleTargetRef"] = copy.deepcopy(target)
    triggers, sources = _on_kafka(manifest), [_source(one) for one in _on_kafka(live)]
    if not triggers or not sources:
        return manifest
    require_one_source(manifest, f"policy {policy['metadata']['name']}")
    if any(one != sources[0] for one in sources):
        raise WrongInput(
            where=f"{live['kind']}/{name} in the cluster",
            field="spec.triggers",
            value=f"{len(sources)} of different topics, groups or Kafkas",
            allowed="triggers on one topic, group and Kafka: the policy would read the first only",
        )
    for trigger in triggers:
        scales = {key: text for key, text in trigger["metadata"].items() if _is_of_scaling(key)}
        metadata, login = copy.deepcopy(sources[0])
        trigger["metadata"] = scales | metadata
        trigger.pop("authenticationRef", None)
        trigger.update({} if login is None else {"authenticationRef": login})
    return manifest


_SCALER_KEYS = metadata_keys(ExternalTrigger) - metadata_keys(KafkaSecurity)
_SCALING_KEYS = {
    *(*KAFKA_SCALING_KEYS, *_SCALER_KEYS, "source"),
    *(str(field.alias) for field in LagRule.model_fields.values()),
}


def _is_of_scaling(key: str) -> bool:
    return key.removesuffix("FromEnv") in _SCALING_KEYS


def _on_kafka(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [one for one in manifest["spec"].get("triggers") or () if _reads_kafka(one)]


def _source(trigger: Mapping[str, Any]) -> tuple[dict[str, str], Mapping[str, str] | None]:
    """Return what a trigger reads, how it gets there, and by which login."""
    metadata = {k: text for k, text in trigger["metadata"].items() if not _is_of_scaling(k)}
    return metadata, trigger.get("authenticationRef")


def _reads_kafka(trigger: Mapping[str, Any]) -> bool:
    """Return whether a run would give the trigger its own Kafka, topic and group."""
    return bool(trigger.get("metadata")) and _for_run(trigger) is kafka_metadata_for_run


def _for_run(
    trigger: Mapping[str, Any],
) -> Callable[[Mapping[str, str], RunSources], Mapping[str, str]]:
    """Return how a run fills a trigger in; a lag scaler's for Iggy names a stream, and stays."""
    kind, metadata = str(trigger.get("type")), trigger["metadata"]
    if calls_lag_scaler(kind, metadata) and metadata.get("source", "kafka") == "kafka":
        return kafka_metadata_for_run
    known = TRIGGER_TYPES.get(kind)
    return (lambda metadata, _sources: metadata) if known is None else known.for_run


def asks_lag_scaler(policy: Mapping[str, Any]) -> bool:
    """Return whether a trigger of the policy calls the lag scaler, by any of its DNS names."""
    return bool(_dialling_lag_scaler(policy))


def iggy_addresses(policy: Mapping[str, Any]) -> list[str]:
    """Return the Iggy servers that the policy has the lag scaler read."""
    found = [trigger["metadata"].get("serverAddress") for trigger in _dialling_lag_scaler(policy)]
    return [str(address) for address in found if address]


def asks_prometheus(policy: Mapping[str, Any]) -> bool:
    """Return whether a trigger of the policy reads a Prometheus."""
    triggers = (policy.get("spec") or {}).get("triggers") or []
    return any(trigger.get("type") == "prometheus" for trigger in triggers)


def _dialling_lag_scaler(policy: Mapping[str, Any]) -> list[dict[str, Any]]:
    triggers = (policy.get("spec") or {}).get("triggers") or []
    addresses = [str((t.get("metadata") or {}).get("scalerAddress") or "") for t in triggers]
    return [
        trigger
        for trigger, address in zip(triggers, addresses, strict=True)
        if address.split(":")[0].split(".")[0] in LAG_SCALER_NAMES
    ]


MOST_CLUSTER_BYTES = 1_000_000
"""Kubernetes takes 1,048,576 bytes in a ConfigMap."""
_SIGNAL = (
    "the embedded bench: no API of a cluster sends a signal to a pod's processes (a deletion "
    "without grace still sends SIGTERM, and the first process of a container ignores SIGKILL and "
    "SIGSTOP from inside)"
)

_OTHER_NAMESPACE = (
    "the embedded bench: on a cluster KEDA is in a namespace of its own, where the run's account "
    "has no rights"
)
_OWN_BROKER = (
    "the embedded bench with its own broker: elsewhere no right allows to stop a broker, and its "
    "clients follow the addresses that it advertises, around any proxy"
)

ONLY_EMBEDDED: Mapping[ActionKind, str] = {
    "kill_pod": _SIGNAL,
    "pause_pod": _SIGNAL,
    "autoscaler_down": _OTHER_NAMESPACE,
    "broker_restart": _OWN_BROKER,
    "broker_unreachable": _OWN_BROKER,
}
"""Kinds that no cluster plays, and where they are played instead."""


def refuse_on_cluster(scenario: Scenario) -> None:
    """Reject actions that the rights of a run's account on a cluster do not allow."""
    _refuse(scenario, {*ONLY_EMBEDDED}, "on a cluster")


def refuse_kind_on_cluster(scenario: Scenario, cluster: ClusterSettings) -> None:
    """Reject what the cluster has not: Spark's image in its registry, room for a user's samples."""
    payload, abort = scenario.payload, scenario.abort
    if abort is not None and abort.disk_free_mebibytes is not None:
        allowed = "no limit: the disk of the cluster's broker is not seen. Watch lag_records"
        limit = abort.disk_free_mebibytes
        raise _wrong(scenario, "abort.disk_free_mebibytes", limit, allowed, " on a cluster")
    if payload is not None and (payload.file_bytes or 0) > MOST_CLUSTER_BYTES:
        allowed = (
            f"at most {MOST_CLUSTER_BYTES:,} bytes: a ConfigMap brings it into the producer's pod. "
            "Take fewer samples, each is sent many times"
        )
        size = f"{payload.file}: {payload.file_bytes:,} bytes"
        raise _wrong(scenario, "payload.file", size, allowed, " on a cluster")
    if scenario.consumer.kind == "spark" and cluster.image and not cluster.spark_image:
        allowed = (
            f"the image of k8s/images/spark.Dockerfile in your registry, beside {IMAGE_FIELD}: "
            "consumer.kind spark runs on it (SPARK_IMAGE in the target's settings)"
        )
        raise _wrong(scenario, SPARK_IMAGE_FIELD, "", allowed, " on a cluster")


def refuse_without_own_broker(scenario: Scenario) -> None:
    """Reject actions on the broker where Kafka is not the bench's own."""
    needy = {kind for kind, where in ONLY_EMBEDDED.items() if where == _OWN_BROKER}
    _refuse(scenario, needy, "with a Kafka of others")


def _refuse(scenario: Scenario, kinds: Collection[ActionKind], place: str) -> None:
    for number, action in enumerate(scenario.actions):
        if action.kind in kinds:
            field, allowed = f"actions.{number}.kind", ONLY_EMBEDDED[action.kind]
            raise _wrong(scenario, field, action.kind, allowed, f" {place}")


def check_actions(
    scenario: Scenario, policies: Sequence[Mapping[str, Any]], *, started_replicas: int
) -> None:
    """Reject actions without load or without a target."""
    seconds = offered_load(scenario.profile).duration_seconds
    has_tail = tail_of(scenario, started_replicas=started_replicas) is not None
    for number, action in enumerate(scenario.actions):
        field, lasting = f"actions.{number}", 0.0
        if isinstance(action, LastingAction) and not has_tail:
            lasting = action.for_seconds
        if action.at is not None and not has_tail:
            allowed = "at_seconds: without a tail no load follows the drain"
            raise _wrong(scenario, f"{field}.at", action.at, allowed)
        if action.at_seconds is not None and action.at_seconds + lasting > seconds:
            allowed = f"a second of the planned window, up to {seconds - lasting:g}"
            allowed += " (the action ends in it, too)" if lasting else "; later: at: lag_drained"
            raise _wrong(scenario, f"{field}.at_seconds", action.at_seconds, allowed)
        if isinstance(action, LagScalerDown) and not any(map(asks_lag_scaler, policies)):
            allowed = "a policy with a trigger that calls the lag scaler"
            raise _wrong(scenario, f"{field}.kind", action.kind, allowed)


def _wrong(
    scenario: Scenario, field: str, value: object, allowed: str, place: str = ""
) -> WrongInput:
    where = f"scenario {scenario.name}{place}"
    return WrongInput(where=where, field=field, value=value, allowed=allowed)


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
    """Return the rights that a run under the ``policies`` needs; empty: they are not known yet."""
    is_on_spark = "spark" in kinds
    makes_claim = is_on_spark or any(map(asks_lag_scaler, policies))
    is_stored = makes_claim and cluster.storage_class != NO_STORAGE
    more = ((CLAIM_RIGHT, is_stored), (SECRET_RIGHT, is_on_spark))
    return (*RUN_RIGHTS, *(right for right, is_needed in more if is_needed))
