"""A live group that moves to another balancer pod by pod, on a real broker."""

from __future__ import annotations

import signal

import numpy as np
import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.telemetry.records_of_programs import PartitionsRevoked
from lagbench.errors import ExitCode

pytestmark = pytest.mark.slow
PARTITIONS = 6
EVENTS = 1200


@pytest.mark.parametrize(
    ("before", "after"), [("range", "consumer"), ("consumer", "cooperative-sticky")]
)
def test_a_group_moves_to_kip_848_and_back_in_place(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin, before: str, after: str
) -> None:
    """Members of both protocols share one group; none is at work when the protocol changes."""
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


def test_the_way_back_from_kip_848_loses_partitions_while_a_pod_joins(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """A member that does not know of the join yet loses what it owns when the last old one leaves.

    A rolling restart that does not wait for the group makes it so; the test above waits for it. A
    stopped process makes sure that the member does not know.
    """
    run.start("old", "--balancer=consumer")
    run.await_members(kafka_admin, 1)
    run.start("new", "--balancer=cooperative-sticky")
    run.await_members(kafka_admin, 2)
    run.pods["new"].send_signal(signal.SIGSTOP)
    run.start("joining", "--balancer=cooperative-sticky")
    eventually(
        lambda: len(kafka_admin.describe_group(run.names.group).members) == 3, "the third member"
    )
    assert run.terminate("old") == ExitCode.PASS
    run.pods["new"].send_signal(signal.SIGCONT)
    run.await_members(kafka_admin, 2)

    lost = [seen for seen in run.telemetry(PartitionsRevoked) if seen.is_lost]

    assert {(seen.source, len(seen.partitions)) for seen in lost} == {("new", 3)}


def test_a_group_of_kip_848_that_has_stopped_starts_with_a_classic_balancer(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """With all pods stopped the way back repeats nothing, not even in the middle of the work."""
    run.start("old", "--balancer=consumer", "--process-ms=4")
    run.await_members(kafka_admin, 1)
    run.offer(EVENTS)
    run.await_processed(1)
    assert run.terminate("old") == ExitCode.PASS
    assert np.unique(run.ledger().seq).size < EVENTS
    run.start("new", "--balancer=cooperative-sticky")

    rows = run.await_processed(EVENTS)

    assert np.unique(rows.seq).size == rows.seq.size == EVENTS
    assert not [seen for seen in run.telemetry(PartitionsRevoked) if seen.is_lost]


@pytest.mark.parametrize(
    ("before", "after", "members"),
    [
        # The old ones keep their partitions in user data, which the broker does not drop. A member
        # that has never been in a rebalance has none yet, so there are two.
        ("cooperative-sticky", "consumer", 2),
        # No protocol is common to both.
        ("range", "cooperative-sticky", 1),
    ],
)
def test_a_balancer_that_the_group_rejects_ends_the_new_pod(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin, before: str, after: str, members: int
) -> None:
    """It joins when the old ones have left."""
    old = [f"old-{number}" for number in range(members)]
    for pod in old:
        run.start(pod, f"--balancer={before}")
    run.await_members(kafka_admin, members)

    early = run.start("early", f"--balancer={after}")
    assert early.wait(timeout=180) == ExitCode.NOT_READY

    for pod in old:
        assert run.terminate(pod) == ExitCode.PASS
    run.start("late", f"--balancer={after}")
    run.await_members(kafka_admin, 1)
