"""The base load is ended once, in its tail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.plugins.conftest import World, change_scenario, execute, workload

from lagbench.core.telemetry.records_of_programs import ProducerProgress, Record, StreamFinished
from lagbench_airflow.operators import offered_load as stop_tail
from lagbench_airflow.operators.offered_load import StopTailOperator

PLANNED = 100 * 5 + 1000 * 10 + 100 * 5
STARTED_AT = 5_000


def progress(sent: int) -> ProducerProgress:
    """Return what the producer says once a second."""
    late = dict.fromkeys(("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"))
    counts = dict.fromkeys(("planned", "sent", "acked"), sent)
    return ProducerProgress(at=1, source="producer", failed=0, **counts, **late)


def finished(tail_sent: int) -> StreamFinished:
    """Return what the producer says last."""
    late = dict.fromkeys(("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"), 0)
    return StreamFinished(
        at=2,
        source="producer",
        **dict.fromkeys(("planned", "sent", "acked"), PLANNED + tail_sent),
        **dict.fromkeys(("failed", "unknown"), 0),
        **late,
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


def stop(world: World, is_settled: str = "True") -> Any:
    """Run the task and return the manifest's tail."""
    execute(StopTailOperator, world, is_settled=is_settled)
    return world.folder.read_json(world.folder.manifest).get("tail")


def has_job(world: World) -> bool:
    """Return whether the producer's Job is there."""
    return world.kube.get("Job", world.names.producer_job) is not None


def test_the_tail_is_ended_and_noted(world: World, reported: list[Record]) -> None:
    """The Job is deleted; the manifest has the tail, also after a retry."""
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
    assert stop(world) == noted


@pytest.mark.parametrize(
    ("end", "is_settled", "by"),
    [(None, "False", "timeout"), ("Complete", "True", "bound"), ("Failed", "True", "failure")],
)
def test_what_ended_the_tail_is_noted(
    world: World, reported: list[Record], end: str | None, is_settled: str, by: str
) -> None:
    """The wait for the floor timed out, or the producer had ended: then its Job stays as it is."""
    reported.append(finished(tail_sent=1))
    if end is not None:
        world.kube.finish_job(world.names.producer_job, end)

    assert stop(world, is_settled)["ended_by"] == by
    assert has_job(world) is (end is not None)


def test_a_producer_that_said_nothing_is_a_failure(world: World, reported: list[Record]) -> None:
    """Nobody knows how long the tail was: missing is not zero.

    One behind its plan is stopped in the end: the wait for the planned window is bounded.
    """
    del reported[1]
    noted = stop(world)

    assert (noted["ended_by"], noted["seconds"], noted["sent"]) == ("failure", None, None)
    assert not has_job(world)


def test_without_a_tail_nothing_is_touched(world: World, reported: list[Record]) -> None:
    """The producer ends by itself, and the manifest has no tail."""
    change_scenario(world, tail="none")

    assert stop(world) is None
    assert reported
    assert has_job(world)
