"""How long a run waits for its pods, and what these may not be given."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from tests.unit.plugins.conftest import SCALED_OBJECT, World
from tests.unit.plugins.test_actions_of_a_cell import KILL, plan, player_pod

from lagbench.core.telemetry import StreamStarted
from lagbench_airflow.hooks import kube as hooks_kube
from lagbench_airflow.operators import inject_spike
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.inject_spike import InjectSpikeOperator
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_actions import StartActionsOperator
from lagbench_airflow.operators.start_recorder import StartRecorderOperator

ASKS_LAG_SCALER = {
    "type": "external",
    "metadata": {
        "scalerAddress": "lagbench-lag-scaler.lagbench.svc.cluster.local:6000",
        "consumerGroup": "g",
    },
}
ON_LAG_SCALER = yaml.safe_load(yaml.safe_dump(SCALED_OBJECT))
ON_LAG_SCALER["spec"]["triggers"] = [ASKS_LAG_SCALER]
STARTED = StreamStarted(
    at=1,
    source="producer",
    stream_started_at=1_000,
    seed=1,
    profile="step",
    planned_total=1,
    planned_seconds=1.0,
    partitions=4,
)
STARTS = (
    RunConsumersOperator,
    StartRecorderOperator,
    ApplyScalingPolicyOperator,
    StartActionsOperator,
    InjectSpikeOperator,
)


def starts(world: World, monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Run the tasks that start pods; return the limit of each wait by what it waits for."""
    seen: dict[str, float] = {}
    look = world.kube.wait_until

    def wait_until(condition: Any, *, timeout_seconds: float, what: str, **others: Any) -> Any:
        seen[what] = timeout_seconds
        return look(condition, timeout_seconds=timeout_seconds, what=what, **others)

    monkeypatch.setattr(world.kube, "wait_until", wait_until)
    monkeypatch.setattr(inject_spike, "first_record", lambda *_: STARTED)
    world.with_policy(ON_LAG_SCALER)
    plan(world, KILL)
    player_pod(world)
    for start in STARTS:
        start(task_id="start", run_folder=str(world.folder.path)).execute(world.context)
    return {what: limit for what, limit in seen.items() if "pod" in what or "stream" in what}


def test_pods_of_a_cluster_may_wait_for_a_node_and_an_image(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consumers, recorder, lag scaler, actions and producer have five minutes each."""
    limits = starts(world, monkeypatch)

    assert len(limits) == 5
    assert min(limits.values()) == 300


def test_the_embedded_bench_has_its_pods_within_a_minute(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pods are processes: a longer wait would only report a failure later."""
    access = hooks_kube.EmbeddedAccess("kubeconfig", {})
    monkeypatch.setattr(hooks_kube, "embedded_access", lambda *_: access)

    limits = starts(world, monkeypatch)

    assert len(limits) == 5
    assert min(limits.values()) == 60
    assert max(limits.values()) <= 100


@pytest.mark.parametrize("start", [StartRecorderOperator, ApplyScalingPolicyOperator])
def test_recorder_and_lag_scaler_may_not_be_throttled_either(
    world: World, start: type[StartRecorderOperator | ApplyScalingPolicyOperator]
) -> None:
    """A late sample is a gap in the run, and a late answer another decision of KEDA."""
    world.kube.default_cpu_limit = "200m"
    world.with_policy(ON_LAG_SCALER)

    with pytest.raises(AirflowFailException, match=r"resources\.limits\.cpu = '200m'"):
        start(task_id="start", run_folder=str(world.folder.path)).execute(world.context)
