"""A live group that moves to another balancer pod by pod, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode

pytestmark = pytest.mark.integration

EVENTS = 1200


@pytest.fixture
def run(broker: Broker, tmp_path: Path) -> Iterator[ConsumerGroupRun]:
    """Provide topics of six partitions."""
    with consumer_group_run(broker.bootstrap_servers, tmp_path, partitions=6) as found:
        yield found


@pytest.mark.parametrize(
    ("before", "after"), [("range", "consumer"), ("consumer", "cooperative-sticky")]
)
def test_a_group_moves_to_kip_848_and_back_in_place(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin, before: str, after: str
) -> None:
    """Members of both protocols share one group, and no message is lost or repeated."""
    run.start("old", f"--balancer={before}")
    run.await_members(kafka_admin, 1)
    run.offer(EVENTS)
    run.start("new", f"--balancer={after}")
    run.await_members(kafka_admin, 2)
    assert run.terminate("old") == ExitCode.PASS
    run.await_members(kafka_admin, 1)
    run.offer(EVENTS)

    rows = run.await_processed(2 * EVENTS)

    assert np.unique(rows.seq).size == rows.seq.size == 2 * EVENTS
    assert set(rows.pod[rows.seq >= EVENTS]) == {"new"}


def test_kip_848_is_rejected_by_a_group_of_cooperative_sticky(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """A new pod ends, and joins when the old ones have left.

    The old ones keep their partitions in user data, which the broker does not drop. A member that
    has never been in a rebalance has none yet, so there are two.
    """
    for pod in ("old-1", "old-2"):
        run.start(pod, "--balancer=cooperative-sticky")
    run.await_members(kafka_admin, 2)

    assert run.start("early", "--balancer=consumer").wait(timeout=180) == ExitCode.NOT_READY

    for pod in ("old-1", "old-2"):
        assert run.terminate(pod) == ExitCode.PASS
    run.start("late", "--balancer=consumer")
    run.await_members(kafka_admin, 1)


def test_cooperative_sticky_is_rejected_by_a_group_of_range(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """The new member has no protocol in common with the old ones; it joins when they have left."""
    run.start("old", "--balancer=range")
    run.await_members(kafka_admin, 1)

    assert run.start("early", "--balancer=cooperative-sticky").wait(timeout=180) == (
        ExitCode.NOT_READY
    )

    assert run.terminate("old") == ExitCode.PASS
    run.start("late", "--balancer=cooperative-sticky")
    run.await_members(kafka_admin, 1)
