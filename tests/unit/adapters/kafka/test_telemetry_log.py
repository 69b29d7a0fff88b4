"""Telemetry never holds up or fails the work it tells of."""

from __future__ import annotations

import time

import pytest

from lagbench.adapters.kafka.telemetry_log import TelemetryLog
from lagbench.core.telemetry.consumer import GroupJoined

NOBODY = "127.0.0.1:1"


def test_sending_without_a_broker_returns_at_once() -> None:
    """Records wait in the queue; nothing is dropped, nothing fails."""
    log = TelemetryLog(NOBODY, "telemetry")
    began = time.monotonic()

    for at in range(100):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert time.monotonic() - began < 30
    assert log.dropped == 0


def test_a_full_queue_drops_and_counts() -> None:
    """A record that does not fit is counted, never raised into the sender's work."""
    log = TelemetryLog(NOBODY, "telemetry", queue_records=10)

    for at in range(25):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    assert log.dropped == 15


def test_a_flush_that_leaves_records_is_an_error_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log says how many records are missing and where: the records themselves cannot."""
    log = TelemetryLog(NOBODY, "telemetry-7", queue_records=10)
    for at in range(12):
        log.send(GroupJoined(at=at, source="pod-a", member_id="member-1"))

    log.flush(0.1)

    (error,) = [found for found in caplog.records if found.levelname == "ERROR"]
    assert error.args == ("telemetry-7", "127.0.0.1:1", 2, 10, 0.1)


def test_a_flush_that_delivers_everything_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Also after an earlier flush has told what was dropped."""
    log = TelemetryLog(NOBODY, "telemetry")
    assert log.flush(0.1) == 0
    assert caplog.records == []

    log.dropped = 3
    for _ in range(2):
        assert log.flush(0.1) == 0

    assert [found.levelname for found in caplog.records] == ["ERROR"]
