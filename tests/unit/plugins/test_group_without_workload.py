"""The wait for a run's consumer group while its workload does not exist."""

from __future__ import annotations

import pytest
from tests.unit.plugins.conftest import World

from lagbench.adapters.kafka.kafka_admin import TopicSpec
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
