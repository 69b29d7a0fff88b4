"""The base load is ended once, in its tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from tests.unit.plugins.conftest import SCENARIO, World, workload

from lagbench.core.telemetry.records import ProducerProgress, Record, StreamFinished
from lagbench_airflow.operators import stop_tail
from lagbench_airflow.operators.stop_tail import StopTailOperator

PLANNED = 100 * 5 + 1000 * 10 + 100 * 5
STARTED_AT = 5_000


def progress(sent: int) -> ProducerProgress:
    """Return what the producer says once a second."""
    return ProducerProgress(
        at=1,
        source="producer",
        planned=sent,
        sent=sent,
        acked=sent,
        failed=0,
        lateness_p50_ms=None,
        lateness_p99_ms=None,
        lateness_max_ms=None,
    )


def finished(tail_sent: int) -> StreamFinished:
    """Return what the producer says last."""
    return StreamFinished(
        at=2,
        source="producer",
        planned=PLANNED + tail_sent,
        sent=PLANNED + tail_sent,
        acked=PLANNED + tail_sent,
        failed=0,
        unknown=0,
        lateness_p50_ms=0,
        lateness_p99_ms=0,
        lateness_max_ms=0,
        fell_behind=False,
        reason="completed",
        stream_sha256="",
        tail_sent=tail_sent,
        tail_seconds=tail_sent / 100,
    )


@pytest.fixture
def reported(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Return the telemetry of a producer that is in its tail; it is read as it is then."""
    records: list[Record] = [progress(PLANNED - 1), progress(PLANNED)]

    def first_record(
        _servers: str, _topic: str, kind: type, *, where: Callable[[Any], bool] = lambda _: True
    ) -> Record | None:
        return next((r for r in records if isinstance(r, kind) and where(r)), None)

    monkeypatch.setattr(stop_tail, "first_record", first_record)
    world.folder.update_manifest(stream_started_at=STARTED_AT)
    job = workload("Job", "producer") | {"metadata": {"name": world.names.producer_job}}
    job["spec"]["template"]["metadata"]["labels"]["lagbench.io/run-id"] = world.names.run_id
    world.kube.apply(job)
    return records


def stop(world: World, is_settled: str = "True") -> dict[str, Any]:
    """Run the task and return the manifest's tail."""
    operator = StopTailOperator(
        task_id="stop_tail", run_folder=str(world.folder.path), is_settled=is_settled
    )
    operator.execute(world.context)
    noted: dict[str, Any] = world.folder.read_json(world.folder.manifest)["tail"]
    return noted


def has_job(world: World) -> bool:
    """Return whether the producer's Job is there."""
    return world.kube.get("Job", world.names.producer_job) is not None


def test_the_tail_is_ended_and_noted(world: World, reported: list[Record]) -> None:
    """The Job is deleted; the manifest has the tail's rate, start, length and end."""
    reported.append(finished(tail_sent=4200))

    noted = stop(world)

    assert not has_job(world)
    assert noted == {
        "rate_per_second": 100.0,
        "most_seconds": 900 + 600 + 120,
        "started_at": STARTED_AT + 20_000_000_000,
        "seconds": 42.0,
        "sent": 4200,
        "ended_by": "settled",
    }
    assert list(world.folder.logs.iterdir())


def test_replicas_that_did_not_settle_are_reported(world: World, reported: list[Record]) -> None:
    """When the wait for the floor timed out, the time limit ended the tail."""
    reported.append(finished(tail_sent=1))

    assert stop(world, is_settled="False")["ended_by"] == "timeout"


@pytest.mark.parametrize(("end", "by"), [("Complete", "bound"), ("Failed", "failure")])
def test_a_producer_that_has_ended_is_left_alone(
    world: World, reported: list[Record], end: str, by: str
) -> None:
    """Its Job stays as it is, and the manifest says what ended the tail."""
    reported.append(finished(tail_sent=1))
    world.kube.finish_job(world.names.producer_job, end)

    assert stop(world)["ended_by"] == by
    assert has_job(world)


def test_a_retry_reads_what_was_said(world: World, reported: list[Record]) -> None:
    """With the Job deleted by an earlier try the same note is written."""
    reported.append(finished(tail_sent=7))
    first = stop(world)

    assert stop(world) == first


def test_a_producer_that_said_nothing_is_a_failure(world: World, reported: list[Record]) -> None:
    """Without its last record nobody knows how long the tail was: missing is not zero."""
    noted = stop(world)

    assert (noted["ended_by"], noted["seconds"], noted["sent"]) == ("failure", None, None)


def test_a_producer_behind_its_plan_is_stopped_in_the_end(
    world: World, reported: list[Record]
) -> None:
    """The wait for the planned window is bounded; the producer then says that it was cut short."""
    del reported[1]

    stop(world)

    assert not has_job(world)


def test_without_a_tail_nothing_is_touched(world: World, reported: list[Record]) -> None:
    """The producer ends by itself, and the manifest has no tail."""
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(SCENARIO | {"tail": "none"}))
    operator = StopTailOperator(task_id="stop_tail", run_folder=str(world.folder.path))

    operator.execute(world.context)

    assert has_job(world)
    assert "tail" not in world.folder.read_json(world.folder.manifest)
