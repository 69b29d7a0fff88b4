"""The stream starts so that the HPA's sync falls where the scenario plans it."""

from __future__ import annotations

import pytest

from lagbench.core.scenario.hpa_phase import (
    phase_distance_seconds,
    require_known_hpa,
    stream_start_at_ns,
)
from lagbench.core.scenario.scenario import Scenario
from lagbench.errors import WrongInput

NS = 1_000_000_000
DATA = {
    "name": "s",
    "description": "d",
    "partitions": 1,
    "profile": {"kind": "steady", "rate_per_second": 1, "duration_seconds": 1},
    "policy": "lag-quick",
}


@pytest.mark.parametrize(
    ("sync_at", "phase", "earliest", "expected"),
    [
        (100, 5, 90, 95),
        (100, 5, 95, 95),
        (100, 5, 96, 110),
        (100, 0, 131, 145),
        (100, 14.5, 0, 10.5),
    ],
)
def test_the_stream_starts_a_phase_before_a_sync(
    sync_at: float, phase: float, earliest: float, expected: float
) -> None:
    """The first instant from the earliest on has a sync, one of each 15 s, that much after it."""
    found = stream_start_at_ns(
        sync_at_ns=round(sync_at * NS), phase_seconds=phase, earliest_ns=round(earliest * NS)
    )

    assert found == round(expected * NS)


def test_phases_lie_on_a_circle() -> None:
    """A sync 0.1 s before the stream's start is 0.2 s from one 0.1 s after it."""
    assert phase_distance_seconds(14.9, 0.1) == pytest.approx(0.2)
    assert phase_distance_seconds(2.0, 9.5) == 7.5


def test_a_cluster_does_not_report_its_syncs() -> None:
    """A fixed phase is rejected there, and no phase is allowed anywhere."""
    free = Scenario.model_validate(DATA)
    fixed = Scenario.model_validate({**DATA, "hpa_sync_at_seconds": 7.5})

    require_known_hpa(free, is_embedded=False)
    require_known_hpa(fixed, is_embedded=True)
    with pytest.raises(WrongInput) as refused:
        require_known_hpa(fixed, is_embedded=False)

    assert (refused.value.field, refused.value.value) == ("hpa_sync_at_seconds", 7.5)
