"""The spike is injected once."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from tests.unit.core.cluster.consumer_pod import document_of
from tests.unit.plugins.conftest import FakeTelemetryLog, World

from lagbench.core.telemetry import HpaSync
from lagbench.core.telemetry.records import StreamStarted
from lagbench.errors import StillWaiting
from lagbench_airflow.operators import inject_spike
from lagbench_airflow.operators.inject_spike import InjectSpikeOperator


@pytest.fixture
def operator(world: World, monkeypatch: pytest.MonkeyPatch) -> InjectSpikeOperator:
    """Return the operator; the stream starts when the world says so."""

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
    return InjectSpikeOperator(task_id="inject_spike", run_folder=str(world.folder.path))


def creations(world: World) -> int:
    """Count the Jobs that were ever created."""
    return world.kube.calls.count(f"create Job/{world.names.producer_job}")


def test_creates_the_job_and_notes_it(world: World, operator: InjectSpikeOperator) -> None:
    """The first try creates the Job; its stream's start is kept in the manifest."""
    result = operator.execute(world.context)

    assert result["is_new"] is True
    assert world.store["spike"] == {"run_id": world.names.run_id}
    assert world.folder.read_json(world.folder.manifest)["stream_started_at"] == 1_000


def test_a_cluster_gets_a_user_s_samples_before_the_producer(
    world: World, operator: InjectSpikeOperator
) -> None:
    """The pod reads them from the run's ConfigMap, not from a path of this machine."""
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    changed = scenario | {"payload": {"file": "orders.jsonl"}}
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(changed))
    world.folder.write_text(world.folder.payload, "{}")

    operator.execute(world.context)

    name = world.names.producer_job
    assert world.kube.calls == [f"apply ConfigMap/{name}", f"create Job/{name}"]
    job = world.kube.objects["Job", name]
    assert job["spec"]["template"]["spec"]["volumes"][0]["configMap"] == {"name": name}
    assert document_of(job)["payload_file"] == "/etc/lagbench/samples/samples"


def test_a_retry_never_injects_twice(world: World, operator: InjectSpikeOperator) -> None:
    """A second try adopts the Job that runs."""
    operator.execute(world.context)

    result = operator.execute(world.context)

    assert result["is_new"] is False
    assert creations(world) == 1


def test_a_retry_after_death_before_the_note_adopts(
    world: World, operator: InjectSpikeOperator
) -> None:
    """When the worker died between creation and note, the name's conflict adopts the Job."""
    operator.execute(world.context)
    world.store.clear()

    assert operator.execute(world.context)["is_new"] is False
    assert creations(world) == 1


def test_a_retry_after_the_stream_finished_adopts(
    world: World, operator: InjectSpikeOperator
) -> None:
    """A Job that has completed, or failed, is no reason for another."""
    operator.execute(world.context)
    for end in ("Complete", "Failed"):
        world.kube.finish_job(world.names.producer_job, end)

        assert operator.execute(world.context)["is_new"] is False
    assert creations(world) == 1


def test_a_job_that_is_gone_is_an_error(world: World, operator: InjectSpikeOperator) -> None:
    """After the Job was deleted the run cannot be repeated half-way, and no retry follows."""
    operator.execute(world.context)
    world.kube.delete("Job", world.names.producer_job)

    with pytest.raises(AirflowFailException, match="Start a new run"):
        operator.execute(world.context)
    assert creations(world) == 1


def test_a_note_of_another_run_does_not_count(world: World, operator: InjectSpikeOperator) -> None:
    """After a clear of the whole Dag run the old note belongs to the old measurement."""
    world.store["spike"] = {"run_id": "another-run"}

    assert operator.execute(world.context)["is_new"] is True


def test_a_stream_that_does_not_start_is_reported(
    world: World, operator: InjectSpikeOperator
) -> None:
    """Without a stream the task fails, is retried, and its phase says so."""
    world.stream_started_at = None

    with pytest.raises(StillWaiting, match="stream to start"):
        operator.execute(world.context)
    phases = (world.folder.path / "phases.jsonl").read_text()
    assert '"state": "failed"' in phases
    assert [record.state for record in FakeTelemetryLog.sent] == ["started"]


def test_a_producer_that_fails_at_once_is_final(
    world: World, operator: InjectSpikeOperator
) -> None:
    """A Job that failed before its stream began ends the run with the producer's last words."""
    world.stream_started_at = None
    with pytest.raises(StillWaiting):
        operator.execute(world.context)
    world.kube.finish_job(world.names.producer_job, "Failed")

    with pytest.raises(AirflowFailException, match=f"log of {world.names.producer_job}"):
        operator.execute(world.context)


def test_the_stream_waits_for_its_phase(
    world: World, operator: InjectSpikeOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a fixed phase the Job starts its stream that much before one of the HPA's syncs."""
    sync = HpaSync(
        at=1_000_000_000_000_000_000,
        source="autoscaler",
        hpa="n/h",
        spec_replicas=1,
        status_replicas=1,
        metrics={},
        proposal=1,
        desired=1,
        able_to_scale="",
        scaling_limited="",
        scaling_active="",
    )
    monkeypatch.setattr(inject_spike, "last_record", lambda *_: sync)
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    world.folder.write_text(
        world.folder.scenario, yaml.safe_dump({**scenario, "hpa_sync_at_seconds": 4.0})
    )

    operator.execute(world.context)

    job = world.kube.get("Job", world.names.producer_job) or {}
    start = document_of(job)["starts_at_ns"]
    assert (start + 4_000_000_000 - sync.at) % 15_000_000_000 == 0
    assert start > time.time_ns()


def test_the_producer_waits_for_the_start_that_cron_windows_need(
    world: World, operator: InjectSpikeOperator
) -> None:
    """The Job has the planned start as a flag; without one the stream starts at once."""
    planned = time.time_ns() + 60_000_000_000
    world.folder.update_manifest(stream_planned_at=planned)

    operator.execute(world.context)

    job = world.kube.objects["Job", world.names.producer_job]
    assert document_of(job)["starts_at_ns"] == planned


@pytest.mark.parametrize(("seconds", "when"), [(-5, "has passed"), (4, r"is in [34] s")])
def test_a_start_that_cannot_be_met_ends_the_run_before_its_stream(
    world: World, operator: InjectSpikeOperator, seconds: int, when: str
) -> None:
    """Cron windows would be elsewhere in the stream: no Job is created, and no retry follows."""
    world.folder.update_manifest(stream_planned_at=time.time_ns() + seconds * 1_000_000_000)

    with pytest.raises(AirflowFailException, match=f"planned start {when}"):
        operator.execute(world.context)

    assert creations(world) == 0


def test_a_stream_whose_start_has_passed_is_adopted(
    world: World, operator: InjectSpikeOperator
) -> None:
    """The worker died between creation and note: the Job is there and met its start."""
    world.folder.update_manifest(stream_planned_at=time.time_ns() + 60_000_000_000)
    operator.execute(world.context)
    world.store.clear()
    world.folder.update_manifest(stream_planned_at=time.time_ns() - 5_000_000_000)

    assert operator.execute(world.context)["is_new"] is False
