"""The spike is injected once."""

from __future__ import annotations

import time
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import (
    FakeTelemetryLog,
    World,
    change_scenario,
    execute,
)

from lagbench.core.telemetry.records_of_programs import HpaSync, StreamStarted
from lagbench.errors import StillWaiting
from lagbench_airflow.operators import offered_load as inject_spike
from lagbench_airflow.operators.offered_load import InjectSpikeOperator

S = 1_000_000_000


@pytest.fixture(autouse=True)
def producer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the stream start when the world says so."""

    def first_record(*_: Any) -> StreamStarted | None:
        if world.stream_started_at is None:
            return None
        return StreamStarted(
            at=1,
            source="producer",
            stream_started_at=world.stream_started_at,
            seed=1,
            profile="step",
            planned_total=1,
            planned_seconds=1.0,
            partitions=4,
        )

    monkeypatch.setattr(inject_spike, "first_record", first_record)


def inject(world: World) -> bool:
    """Run the task; return whether it has created the Job."""
    return bool(execute(InjectSpikeOperator, world)["is_new"])


def creations(world: World) -> int:
    """Count the Jobs that were ever created."""
    return world.kube.calls.count(f"create Job/{world.names.producer_job}")


def starts_at(world: World) -> int:
    """Return the start that the producer was given."""
    return document_of(world.kube.objects["Job", world.names.producer_job])["starts_at_ns"]


@pytest.mark.parametrize("between", ["nothing", "death before the note", "Complete", "Failed"])
def test_a_retry_never_injects_twice(world: World, between: str) -> None:
    """It adopts the Job that the first try has created, also one that has ended."""
    world.store["spike"] = {"run_id": "another-run"}  # of before a clear of the whole Dag run
    assert inject(world)
    assert world.store["spike"] == {"run_id": world.names.run_id}
    assert world.folder.read_json(world.folder.manifest)["stream_started_at"] == 1_000
    if between == "death before the note":
        world.store.clear()
    elif between != "nothing":
        world.kube.finish_job(world.names.producer_job, between)

    assert not inject(world)
    assert creations(world) == 1


def test_a_job_that_is_gone_is_an_error(world: World) -> None:
    """After the Job was deleted the run cannot be repeated half-way, and no retry follows."""
    inject(world)
    world.kube.delete("Job", world.names.producer_job)

    with pytest.raises(AirflowFailException, match="Start a new run"):
        inject(world)
    assert creations(world) == 1


def test_a_cluster_gets_a_user_s_samples_before_the_producer(world: World) -> None:
    """The pod reads them from the run's ConfigMap, not from a path of this machine."""
    change_scenario(world, payload={"file": "orders.jsonl"})
    world.folder.write_text(world.folder.payload, "{}")
    inject(world)

    name = world.names.producer_job
    assert world.kube.calls == [f"apply ConfigMap/{name}", f"create Job/{name}"]
    job = world.kube.objects["Job", name]
    assert job["spec"]["template"]["spec"]["volumes"][0]["configMap"] == {"name": name}
    assert document_of(job)["payload_file"] == "/etc/lagbench/samples/samples"


def test_a_stream_that_does_not_start_is_reported(world: World) -> None:
    """The task fails, is retried, and its phase says so; one whose producer failed is final."""
    world.stream_started_at = None
    with pytest.raises(StillWaiting, match="stream to start"):
        inject(world)

    assert '"state": "failed"' in world.folder.phases.read_text()
    assert [record.state for record in FakeTelemetryLog.sent] == ["started"]
    world.kube.finish_job(world.names.producer_job, "Failed")
    with pytest.raises(AirflowFailException, match=f"log of {world.names.producer_job}"):
        inject(world)


def test_the_stream_waits_for_its_phase(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fixed phase the Job starts its stream that much before one of the HPA's syncs."""
    words = dict.fromkeys(("able_to_scale", "scaling_limited", "scaling_active"), "")
    counts = dict.fromkeys(("spec_replicas", "status_replicas", "proposal", "desired"), 1)
    sync = HpaSync(at=S * S, source="autoscaler", hpa="n/h", metrics={}, **counts, **words)
    monkeypatch.setattr(inject_spike, "last_record", lambda *_: sync)
    change_scenario(world, hpa_sync_at_seconds=4.0)
    inject(world)

    assert (starts_at(world) + 4 * S - sync.at) % (15 * S) == 0
    assert starts_at(world) > time.time_ns()


def test_the_producer_waits_for_the_start_that_cron_windows_need(world: World) -> None:
    """The Job has the planned start; a retry after that adopts the Job, which met its start."""
    planned = time.time_ns() + 60 * S
    world.folder.update_manifest(stream_planned_at=planned)
    inject(world)
    assert starts_at(world) == planned

    world.store.clear()
    world.folder.update_manifest(stream_planned_at=time.time_ns() - 5 * S)
    assert not inject(world)


@pytest.mark.parametrize(("seconds", "when"), [(-5, "has passed"), (4, r"is in [34] s")])
def test_a_start_that_cannot_be_met_ends_the_run_before_its_stream(
    world: World, seconds: int, when: str
) -> None:
    """Cron windows would be elsewhere in the stream: no Job is created, and no retry follows."""
    world.folder.update_manifest(stream_planned_at=time.time_ns() + seconds * S)

    with pytest.raises(AirflowFailException, match=f"planned start {when}"):
        inject(world)
    assert creations(world) == 0
