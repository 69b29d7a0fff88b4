"""Build the policy of a run: the committed one with the run's Kafka in each trigger on lag."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from lagbench.core.cluster.manifests import Manifest, RunTarget, named
from lagbench.core.keda.triggers.kafka import kafka_metadata_for_run
from lagbench.core.keda.triggers.other_types import TRIGGER_TYPES
from lagbench.core.keda.triggers.parameters import RunSources
from lagbench.core.policy.limits import is_lag_scaler
from lagbench.core.policy.stream_windows import at_stream_start
from lagbench.core.scenario.run_names import (
    BOOTSTRAP_ANNOTATION,
    LAG_SCALER,
    LAG_SCALER_NAMES,
    PROMETHEUS,
    RUN_ID_ANNOTATION,
    TELEMETRY_TOPIC_ANNOTATION,
)
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
    The second group's scales its own consumers.
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
    if names.is_second and scaled:
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


def _for_run(
    trigger: Mapping[str, Any],
) -> Callable[[Mapping[str, str], RunSources], Mapping[str, str]]:
    """Return how a run fills a trigger in; a lag scaler's for Iggy names a stream, and stays."""
    if is_lag_scaler(trigger) and trigger["metadata"].get("source", "kafka") == "kafka":
        return kafka_metadata_for_run
    known = TRIGGER_TYPES.get(str(trigger.get("type")))
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
