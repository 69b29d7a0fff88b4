"""The wait for a run's consumer group whose workload does not exist, or cannot work."""

from __future__ import annotations

import time

import pytest
from tests.unit.plugins.conftest import World

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench.core.scenario import RUN_ID_LABEL
from lagbench_airflow.triggers.condition import Reason, run_inline
from lagbench_airflow.triggers.run_group import RunGroupStableTrigger


@pytest.mark.parametrize("has_members", [True, False])
def test_a_group_without_its_workload_is_not_stable(world: World, *, has_members: bool) -> None:
    """Without pods and without members nothing differs, but nothing consumes either."""
    world.admin.create_topics([TopicSpec(name, 2) for name in world.names.topics])
    trigger = RunGroupStableTrigger(
        run_id=world.names.run_id,
        workload="Deployment",
        has_members=has_members,
        kafka_conn_id="kafka_default",
        kubernetes_conn_id="kubernetes_default",
        deadline_at=0.0,
        hold_seconds=0.0,
        poll_seconds=0.0,
    )

    event = run_inline(trigger)

    assert event["reason"] == Reason.TIMED_OUT
    assert list(event["seen"]) == ["Deployment"]


@pytest.mark.parametrize("is_before_spike", [True, False])
def test_pods_that_end_again_and_again_end_the_wait(world: World, *, is_before_spike: bool) -> None:
    """At once, with exit code and last lines; at the end of a run an action may have ended them."""
    world.admin.create_topics([TopicSpec(name, 2) for name in world.names.topics])
    name, label = world.names.consumers, {RUN_ID_LABEL: world.names.run_id}
    metadata = {"name": name, "labels": label}
    deployment = {"kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1}}
    world.kube.objects["Deployment", name] = deployment
    pod = f"{name}-7d-x2"
    status = {"name": "main", "restartCount": 3, "state": {"terminated": {"exitCode": 2}}}
    world.kube.objects["Pod", pod] = {
        "kind": "Pod",
        "metadata": {"name": pod, "labels": label},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"containerStatuses": [status]},
    }
    world.kube.logs[pod] = "can't open file '/app/x.py'"
    trigger = RunGroupStableTrigger(
        run_id=world.names.run_id,
        workload="Deployment",
        refuses_strangers=is_before_spike,
        kafka_conn_id="kafka_default",
        kubernetes_conn_id="kubernetes_default",
        deadline_at=time.time() + 60 if is_before_spike else 0.0,
        hold_seconds=0.0,
        poll_seconds=0.0,
    )

    event = run_inline(trigger)

    assert event["reason"] == (Reason.REFUSED if is_before_spike else Reason.TIMED_OUT)
    if is_before_spike:
        assert "exit code 2" in event["seen"]["error"]
        assert "can't open file '/app/x.py'" in event["seen"]["error"]
