"""Reject actions that a run cannot play: outside of its load, without target, on a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from lagbench.core.cluster.policy_manifest import asks_lag_scaler
from lagbench.core.cluster.run_samples import MOST_CLUSTER_BYTES
from lagbench.core.cluster.settings import IMAGE_FIELD, SPARK_IMAGE_FIELD, ClusterSettings
from lagbench.core.scenario.actions import ActionKind, LagScalerDown, LastingAction
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.scenario.stream.tail import tail_of
from lagbench.errors import WrongInput

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
    payload = scenario.payload
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
    """Reject actions without load or without a target.

    :param policies: the manifests of the run's policy, and of those that actions swap in.
    """
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
