"""The bound of a killed pod's work that is not in the ledger."""

from __future__ import annotations

import pytest

from lagbench.core.ownership.holdings import Holding
from lagbench.core.ownership.unledgered import Ledgered, Unledgered, unledgered_bounds

NS = 1_000_000_000


def ledgered(kills: int, last: float, *, pod: str = "a", most: int = 100) -> Ledgered:
    """Return the ledger's work of a process of the pod, up to ``last`` seconds."""
    return Ledgered(pod, kills, most, round(last * NS))


def held(at: int, *, pod: str = "a") -> Holding:
    """Return a holding of partition 0 without an end."""
    return Holding(0, pod, at * NS, None)


def test_work_after_the_restart_does_not_bound_the_kill() -> None:
    """The container is started again in its pod and works on: the kill left half a second."""
    rows = [ledgered(0, 9.5), ledgered(1, 60.0)]

    found = unledgered_bounds({"a": [10 * NS]}, rows, {"a": [9 * NS, 50 * NS]}, [])

    assert found == [Unledgered("a", 10 * NS, 0.5, 50)]


def test_each_kill_of_a_pod_has_its_own_bound() -> None:
    """The second process worked until 29.8 s, and was idle at 29.9 s."""
    rows = [ledgered(0, 9.5), ledgered(1, 29.8), ledgered(2, 60.0, most=200)]
    idle = {"a": [round(29.9 * NS), 31 * NS]}

    found = unledgered_bounds({"a": [10 * NS, 30 * NS]}, rows, idle, [])

    assert [(bound.killed_at, bound.messages) for bound in found] == [
        (10 * NS, 100),  # half a second at its busiest second
        (30 * NS, 20),
    ]


def test_a_pod_with_its_first_transaction_open_counts_from_its_assignment() -> None:
    """It has no row yet, and may have worked as fast as the busiest pod."""
    rows = [ledgered(0, 20.0, pod="b", most=150)]

    found = unledgered_bounds({"a": [10 * NS]}, rows, {}, [held(8), held(12), held(1, pod="b")])

    assert found == [Unledgered("a", 10 * NS, 2.0, 300)]


def test_a_process_without_an_assignment_has_done_nothing() -> None:
    """The restarted container was killed again before it joined the group."""
    rows = [ledgered(0, 9.5)]

    found = unledgered_bounds({"a": [10 * NS, 12 * NS]}, rows, {}, [held(1)])

    assert [bound.killed_at for bound in found] == [10 * NS]


@pytest.mark.parametrize(("idle_at", "seconds"), [(9, 1.0), (11, 2.0)])
def test_without_any_row_the_number_is_unknown(idle_at: int, seconds: float) -> None:
    """No pod's rate is known, so there is no bound of the messages, which is not zero."""
    found = unledgered_bounds({"a": [10 * NS]}, [], {"a": [idle_at * NS]}, [held(8)])

    assert found == [Unledgered("a", 10 * NS, seconds, None)]
