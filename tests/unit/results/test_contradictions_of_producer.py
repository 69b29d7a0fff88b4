"""Run folders whose producer tells of another stream than the rest of the folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.fakes.tampered_run import SECOND, Row, TamperedRun

from lagbench.core.measures.evidence.producer_records import contradictions_of_the_producer
from lagbench.core.scenario.stream.tail import Tail
from lagbench.core.telemetry.records import ProducerProgress, StreamFinished, StreamStarted

Edit = Callable[[Row], Row]


@pytest.mark.parametrize(
    ("kind", "edit", "why"),
    [
        (
            "stream_finished",
            lambda record: {**record, "reason": "stopped by SIGTERM"},
            "did not complete its stream",
        ),
        (
            "stream_finished",
            lambda record: {**record, "failed_seqs": [[5, 9]]},
            "5 failed messages",
        ),
        (
            "producer_progress",
            lambda record: {**record, "lateness_max_ms": 5000.0},
            "its progress 5000 ms",
        ),
        (
            "producer_progress",
            lambda record: {**record, "acked": record["sent"] + 5000},
            "acknowledged",
        ),
        (
            "stream_started",
            lambda record: {**record, "tail_rate_per_second": 60_000.0},
            "the producer's tail has 60000/s",
        ),
    ],
)
def test_a_producer_that_contradicts_itself_made_no_known_load(
    run: TamperedRun, kind: str, edit: Edit, why: str
) -> None:
    """No verdict rests on a load of which the producer says two things."""
    run.edit_records(edit, kind)

    verdict = run.judge()

    assert verdict.status == "undetermined"
    assert any(why in reason for reason in verdict.invalid), verdict.invalid


def test_two_producers_are_two_streams(run: TamperedRun) -> None:
    """Another producer's stream began 5 s later: which one is judged is not known."""
    [started] = run.records("stream_started")
    later = {name: started[name] + 5 * SECOND for name in ("at", "stream_started_at")}
    run.add_records({**started, **later, "source": "producer-other"})

    assert any("2 producers reported a stream" in reason for reason in run.judge().invalid)


def records_of(
    *, tail_sent: int = 300, sent: int = 1300, starts: tuple[int, ...] = (0,)
) -> list[Any]:
    """Return what one producer says of 1,000 planned messages and a tail at 10/s for 30 s."""
    source = "producer"
    started = [
        StreamStarted(
            at=at,
            source=source,
            stream_started_at=at,
            seed=1,
            profile="step",
            planned_total=1000,
            planned_seconds=10,
            partitions=4,
            tail_rate_per_second=10.0,
            tail_most_seconds=60.0,
        )
        for at in starts
    ]
    return [
        *started,
        StreamFinished(
            at=40 * SECOND,
            source=source,
            planned=sent,
            sent=sent,
            acked=sent,
            failed=0,
            unknown=0,
            lateness_p50_ms=1.0,
            lateness_p99_ms=2.0,
            lateness_max_ms=3.0,
            fell_behind=False,
            reason="completed",
            stream_sha256="",
            tail_sent=tail_sent,
            tail_seconds=30.0,
        ),
    ]


def contradictions(records: list[Any], **noted: Any) -> list[str]:
    """Return what contradicts in ``records`` and a manifest that notes ``noted`` of the tail."""
    return contradictions_of_the_producer(
        records,
        scenario_total=1000,
        tail=Tail(10.0, 60.0),
        noted_tail={"sent": 300, "seconds": 30.2, **noted},
    )


def test_a_tail_of_which_all_say_the_same_is_no_contradiction() -> None:
    """A second's difference of the stamps is none."""
    assert contradictions(records_of()) == []


@pytest.mark.parametrize(
    ("records", "noted", "why"),
    [
        (records_of(), {"sent": 20}, "by the manifest 20"),
        (records_of(), {"seconds": 20.0}, "by the manifest 20.0 s"),
        (records_of(tail_sent=150), {"sent": 150}, "the scenario has 1,000"),
        (records_of(starts=(0, 5 * SECOND)), {}, "5.0 s apart"),
    ],
)
def test_a_tail_of_which_two_things_are_reported_is_not_known(
    records: list[Any], noted: dict[str, Any], why: str
) -> None:
    """Producer, manifest and scenario are compared with each other."""
    [reason] = contradictions(records, **noted)

    assert why in reason


def test_a_report_of_less_lateness_is_no_contradiction() -> None:
    """The end's maximum is that of the whole stream; None in a report: nothing was sent then."""
    quiet = ProducerProgress(
        at=1,
        source="producer",
        planned=0,
        sent=0,
        acked=0,
        failed=0,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )

    assert contradictions([quiet, *records_of()]) == []
