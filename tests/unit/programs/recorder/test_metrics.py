"""The recorder's readings as Prometheus sees them."""

from __future__ import annotations

from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lagbench.core.telemetry.records import (
    ConsumerProgress,
    GroupSample,
    HpaSample,
    LagSample,
    LoadStep,
    Phase,
    PodStarted,
    PodStopped,
    ProducerProgress,
    ReadGap,
    Record,
    ReplicaSample,
    ScaledObjectSample,
    StreamFinished,
    UsageSample,
)
from lagbench.programs.recorder.metrics import Exposition
from lagbench.programs.recorder.newest_readings import NewestReadings
from lagbench.programs.recorder.sampling_grid import What

NOW = 1_700_000_000_000_000_000
SECOND = 1_000_000_000
Series = dict[tuple[str, tuple[str, ...]], float]
GAPS = {("lagbench_recorder_gaps_total", (what,)) for what in get_args(What)}


def scrape(*records: Record, now: int = NOW) -> Series:
    """Return what a scrape sees after ``records``: values by name and label values."""
    newest = NewestReadings(interval_seconds=1.0)
    for record in records:
        newest.take(record)
    seen = exposed(newest, now)
    return {place: seen[place] for place in seen if seen[place] or place not in GAPS}


def exposed(newest: NewestReadings, now: int) -> Series:
    """Return all that a scrape sees."""
    status, text = Exposition(newest, now=lambda: now)()
    assert status == 200
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def named(series: Series, name: str) -> dict[tuple[str, ...], float]:
    """Return the series of one name."""
    return {labels: value for (found, labels), value in series.items() if found == name}


def lag(*rows: tuple[int, int, int | None], at: int = NOW) -> LagSample:
    """Return a sample of the lag."""
    return LagSample(at=at, source="recorder", partitions=list(rows))


def phase(name: str, state: str) -> Phase:
    """Return a phase's record."""
    return Phase(at=NOW, source="dag", name=name, state=state)  # type: ignore[arg-type]


def progress(pod: str, *, at: int = NOW, processed: int = 40) -> ConsumerProgress:
    """Return a pod's report."""
    return ConsumerProgress(
        at=at,
        source=pod,
        processed_total=processed,
        consume_rate=10,
        inflight=1,
        queued=7,
        assigned_partitions=2,
        cpu_seconds=1.5,
    )


def pod_started(pod: str) -> PodStarted:
    """Return a pod's first report."""
    return PodStarted(
        at=NOW,
        source=pod,
        process_started_at=NOW,
        balancer="range",
        concurrency=4,
        process_ms=2,
        instance_id=None,
    )


def test_before_any_reading_there_is_no_series() -> None:
    """Missing is not zero; that no reading failed is known."""
    series = exposed(NewestReadings(interval_seconds=1.0), NOW)

    assert set(series.values()) == {0}
    assert {name for name, _ in series} == {"lagbench_recorder_gaps_total"}


def test_lag_is_reported_in_total_and_by_partition() -> None:
    """A committed offset beyond the end is no negative lag."""
    series = scrape(lag((0, 100, 60), (1, 50, 52)))

    assert named(series, "lagbench_lag_records") == {(): 40}
    assert named(series, "lagbench_partition_lag_records") == {("0",): 40, ("1",): 0}
    assert named(series, "lagbench_partition_end_offset") == {("0",): 100, ("1",): 50}
    assert named(series, "lagbench_partition_committed_offset") == {("0",): 60, ("1",): 52}


def test_a_total_with_an_unknown_part_is_unknown() -> None:
    """A partition without a commit has no lag, and so the group has no total."""
    series = scrape(lag((0, 100, 60), (1, 50, None), (2, 0, None)))

    assert named(series, "lagbench_lag_records") == {}
    assert named(series, "lagbench_partition_lag_records") == {("0",): 40, ("2",): 0}
    assert named(series, "lagbench_partition_committed_offset") == {("0",): 60}


def test_a_topic_without_partitions_has_no_lag() -> None:
    """There is nothing to be behind of."""
    assert scrape(lag()) == {}


@pytest.mark.parametrize(("age_seconds", "is_shown"), [(2.4, True), (2.6, False)])
def test_a_reading_ends_when_it_is_not_renewed(age_seconds: float, is_shown: bool) -> None:
    """After two and a half intervals the last good value says nothing of now."""
    series = scrape(lag((0, 9, 4)), now=NOW + round(age_seconds * SECOND))

    assert bool(series) == is_shown


def test_an_older_record_does_not_replace_a_newer_one() -> None:
    """What a former recorder left in the topic is read while this one samples."""
    series = scrape(lag((0, 9, 4)), lag((0, 3, 3), at=NOW - SECOND))

    assert named(series, "lagbench_lag_records") == {(): 5}


def test_replicas_and_group_are_reported() -> None:
    """Wanted, existing and ready; members, the idle among them, and the state."""
    series = scrape(
        ReplicaSample(at=NOW, source="r", spec=6, current=4, ready=3),
        GroupSample(at=NOW, source="r", state="stable", members=3, members_without_partitions=1),
    )

    assert named(series, "lagbench_replicas") == {("wanted",): 6, ("existing",): 4, ("ready",): 3}
    assert named(series, "lagbench_group_members") == {(): 3}
    assert named(series, "lagbench_group_idle_members") == {(): 1}
    assert named(series, "lagbench_group_state") == {("stable",): 1}


def test_an_hpas_metric_stands_beside_its_target() -> None:
    """Quantities are numbers; what the HPA does not know has no series."""
    series = scrape(
        HpaSample(
            at=NOW,
            source="r",
            name="hpa",
            desired=None,
            current=2,
            metrics=["s0-kafka: averageValue 1500m", "cpu: averageUtilization 40, averageValue 9m"],
            conditions=["AbleToScale=True Ready", "ScalingActive=False No", "Other=Unknown"],
            targets=["s0-kafka: averageValue 1k", "s1-x: unknown"],
            max_replicas=12,
        )
    )

    assert named(series, "lagbench_hpa_desired_replicas") == {}
    assert named(series, "lagbench_hpa_metric") == {
        ("hpa", "s0-kafka", "averageValue"): 1.5,
        ("hpa", "cpu", "averageUtilization"): 40,
        ("hpa", "cpu", "averageValue"): 0.009,
    }
    assert named(series, "lagbench_hpa_metric_target") == {
        ("hpa", "s0-kafka", "averageValue"): 1000
    }
    assert named(series, "lagbench_hpa_condition") == {
        ("AbleToScale", "hpa"): 1,
        ("ScalingActive", "hpa"): 0,
    }
    assert named(series, "lagbench_hpa_max_replicas") == {("hpa",): 12}


def test_the_conditions_of_a_scaled_object_are_reported() -> None:
    """Ready=False is 0, and what KEDA does not know has no series."""
    conditions = ["Ready=False TriggerError", "Active=True", "Fallback=Unknown"]

    series = scrape(ScaledObjectSample(at=NOW, source="r", name="consumer", conditions=conditions))

    assert named(series, "lagbench_scaled_object_condition") == {
        ("Ready", "consumer"): 0,
        ("Active", "consumer"): 1,
    }


@pytest.mark.parametrize(
    ("of_replica", "of_group", "shown"),
    [(100.0, None, 375.0), (None, 200.0, 250.0), (100.0, 200.0, 250.0), (None, None, None)],
)
def test_the_lag_above_which_the_policy_scales_is_reported(
    of_replica: float | None, of_group: float | None, shown: float | None
) -> None:
    """It is the lowest target at the wanted replicas, plus the tolerance; none has no series."""
    scaled = ScaledObjectSample(
        at=NOW,
        source="r",
        name="consumer",
        conditions=[],
        scales_at_records=of_replica,
        group_target_records=of_group,
        tolerance=0.25,
    )
    replicas = ReplicaSample(at=NOW, source="r", spec=3, current=2, ready=1)
    name = "lagbench_scales_above_records"

    expected = {} if shown is None else {("consumer",): shown}
    assert named(scrape(scaled, replicas), name) == expected
    assert named(scrape(scaled), name) == {}


def test_a_phase_is_reported_while_it_goes_on() -> None:
    """Started phases have a series, ended and failed ones have none."""
    series = scrape(
        phase("start_consumers", "started"),
        phase("start_consumers", "finished"),
        phase("inject_spike", "started"),
        phase("await_ready", "started"),
        phase("await_ready", "failed"),
    )

    assert named(series, "lagbench_phase") == {("inject_spike",): 1}


def test_the_planned_rate_holds_from_step_to_step_until_the_stream_ends() -> None:
    """A step is a fact that need not be repeated."""
    spike = LoadStep(at=NOW, source="p", step="spike_start", rate_before=10, rate_after=90)
    calm = LoadStep(at=NOW + 9, source="p", step="spike_end", rate_before=90, rate_after=10)
    end = StreamFinished(
        at=NOW + 20,
        source="p",
        planned=1,
        sent=1,
        acked=1,
        failed=0,
        unknown=0,
        lateness_p50_ms=0,
        lateness_p99_ms=0,
        lateness_max_ms=0,
        fell_behind=False,
        reason="completed",
        stream_sha256="",
    )
    later = NOW + 3600 * SECOND

    assert scrape(spike, now=later) == {("lagbench_load_planned_rate", ("spike_start",)): 90}
    assert scrape(spike, calm, now=later) == {("lagbench_load_planned_rate", ("spike_end",)): 10}
    assert scrape(spike, calm, end, now=later) == {}


def test_the_producers_totals_and_lateness_are_reported() -> None:
    """Lateness is in seconds; a second without events has none."""
    series = scrape(
        ProducerProgress(
            at=NOW,
            source="p",
            planned=100,
            sent=99,
            acked=98,
            failed=1,
            lateness_p50_ms=2,
            lateness_p99_ms=None,
            lateness_max_ms=8,
        )
    )

    assert named(series, "lagbench_load_events_total") == {
        ("planned",): 100,
        ("sent",): 99,
        ("acked",): 98,
        ("failed",): 1,
    }
    assert named(series, "lagbench_load_lateness_seconds") == {("0.5",): 0.002, ("1",): 0.008}


def test_each_consumers_work_is_reported_while_it_reports() -> None:
    """One that stopped, or fell silent for 10 s, has no series."""
    series = scrape(
        pod_started("a"),
        pod_started("b"),
        pod_started("c"),
        progress("a"),
        progress("b"),
        progress("c", at=NOW - 11 * SECOND),
        PodStopped(
            at=NOW, source="b", reason="", is_graceful=True, abandoned=0, processed_total=40
        ),
    )

    assert named(series, "lagbench_consumer_cpu_seconds_total") == {("a",): 1.5}
    assert named(series, "lagbench_consumer_processed_records_total") == {("a",): 40}
    assert named(series, "lagbench_consumer_queued_records") == {("a",): 7}
    assert named(series, "lagbench_consumer_concurrency") == {("a",): 4}


def test_the_benchs_own_cost_and_its_gaps_are_reported() -> None:
    """Failed readings are counted by what was not seen."""
    series = scrape(
        UsageSample(at=NOW, source="r", component="broker", cpu_seconds=3.5, memory_bytes=64),
        ReadGap(at=NOW, source="r", what="hpa", reason="away"),
        ReadGap(at=NOW, source="r", what="hpa", reason="away"),
    )

    assert named(series, "lagbench_component_cpu_seconds_total") == {("broker",): 3.5}
    assert named(series, "lagbench_component_memory_bytes") == {("broker",): 64}
    assert named(series, "lagbench_recorder_gaps_total") == {("hpa",): 2}
