"""What the recorder takes from the telemetry topic."""

from __future__ import annotations

import pytest

from lagbench.adapters.kafka.recovery import RECOVERY
from lagbench.core.telemetry.phases import Phase
from lagbench.core.telemetry.record import Record
from lagbench.core.telemetry.recorder import ReadGap
from lagbench.core.telemetry.records import encode_record
from lagbench.programs.telemetry_follower import TelemetryFollower


@pytest.fixture
def taken() -> list[Record]:
    """Provide what was handed over."""
    return []


@pytest.fixture
def follower(taken: list[Record]) -> TelemetryFollower:
    """Provide a follower that has not started."""
    return TelemetryFollower("127.0.0.1:1", "telemetry", taken.append, "recorder-1")


def test_it_looks_for_a_new_leader_soon_after_an_outage(follower: TelemetryFollower) -> None:
    """Without the shorter refresh of metadata a partition may stay without a leader for 5 min."""
    assert follower._settings.items() >= RECOVERY.items()


def test_others_records_are_handed_over_and_its_own_are_not(
    follower: TelemetryFollower, taken: list[Record]
) -> None:
    """What the recorder read itself it knows before the topic does."""
    phase = Phase(at=1, source="dag", name="inject_spike", state="started")
    own = ReadGap(at=2, source="recorder-1", what="lag", reason="away")

    for record in (own, phase):
        follower.hand_over(encode_record(record))

    assert taken == [phase]


@pytest.mark.parametrize("value", [b"", b"{", b'{"kind": "unknown", "at": 1, "source": "x"}'])
def test_what_is_no_record_is_passed_over(
    follower: TelemetryFollower, taken: list[Record], value: bytes
) -> None:
    """One bad message does not end the metrics."""
    follower.hand_over(value)

    assert taken == []
