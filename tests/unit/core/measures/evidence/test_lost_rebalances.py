"""A hole in a pod's own count of its rebalances is seen, under both protocols of the group."""

from __future__ import annotations

from lagbench.core.measures.evidence.unrecorded import lost_rebalances
from lagbench.core.telemetry.consumer import PartitionsAssigned, PartitionsRevoked


def assigned(at: int, number: int, owned: list[int]) -> PartitionsAssigned:
    """Return an assignment of an eager rebalance: it names everything that the pod owns."""
    return PartitionsAssigned(
        at=at,
        source="pod",
        member_id="pod-1",
        partitions=owned,
        owned=owned,
        is_incremental=False,
        rebalance=number,
    )


def revoked(at: int, number: int, partitions: list[int]) -> PartitionsRevoked:
    """Return the revocation of everything, with which an eager rebalance begins."""
    return PartitionsRevoked(
        at=at,
        source="pod",
        member_id="pod-1",
        partitions=partitions,
        owned=[],
        is_lost=False,
        in_flight=0,
        finish_seconds=0.1,
        rebalance=number,
    )


EAGER = [
    assigned(1, 1, [0, 1]),
    revoked(2, 2, [0, 1]),
    assigned(3, 2, [0]),
    revoked(4, 3, [0]),
    assigned(5, 3, [0, 1]),
    revoked(6, 4, [0, 1]),
]


def test_an_eager_rebalance_is_a_revocation_and_an_assignment_of_one_number() -> None:
    """Under range and roundrobin nothing is missing in a whole record."""
    assert lost_rebalances(EAGER) == ""


def test_each_record_that_an_eager_rebalance_lacks_is_seen() -> None:
    """Without one revocation, or without one rebalance, who owned what is not known."""
    assert "pod" in lost_rebalances([r for r in EAGER if r.at != 2])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (2, 3)])
    assert "pod" in lost_rebalances([r for r in EAGER if r.at not in (4, 5)])


def test_a_container_that_starts_again_counts_anew() -> None:
    """The first assignment of the next container has number 1 again."""
    again = [assigned(7, 1, [1]), revoked(8, 2, [1]), assigned(9, 2, [0, 1])]

    assert lost_rebalances([*EAGER, *again]) == ""
    assert lost_rebalances([*EAGER[:5], *again]) == ""
