"""The recorder's readings as Prometheus sees them, under its own names and those of others."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.fakes.telemetry import of

from lagbench.core.telemetry.records_of_programs import (
    ConsumerProgress,
    LoadStep,
    Phase,
    PodStarted,
    PodStopped,
    ProducerProgress,
    Record,
    StreamFinished,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupSample,
    HpaSample,
    LagSample,
    ReadGap,
    ReplicaSample,
    ScaledObjectSample,
    UsageSample,
    What,
)
from lagbench.programs.recorder.kafka_readings import NewestReadings
from lagbench.programs.recorder.recorder_metrics import Exposition
from lagbench.programs.recorder.sources import RecorderOptions, parse_options

NOW, SECOND = 1_700_000_000_000_000_000, 1_000_000_000
OF_RUN = ["--run-id=r1", "--namespace=spikes", "--bootstrap-servers=b:1"]
NAMES = parse_options(OF_RUN, {})
Series = dict[str, dict[tuple[str, ...], float]]
"""By name, then by the values of the labels in the order of the labels' names."""


def made(kind: type[Record], **fields: Any) -> Any:
    """Return a record of now."""
    return of(kind, 0, "r", **{"at": NOW} | fields)


def lag(*rows: tuple[int, int, int | None], at: int = NOW) -> Any:
    """Return a sample of the lag: partition, end, committed."""
    return made(LagSample, partitions=list(rows), at=at)


def hpa(**fields: Any) -> Any:
    """Return a reading of an HPA."""
    return made(HpaSample, name="hpa", **fields)


def scaled(*conditions: str, **fields: Any) -> Any:
    """Return a reading of a ScaledObject."""
    return made(ScaledObjectSample, name="consumer", conditions=list(conditions), **fields)


def progress(pod: str, at: int = NOW) -> Any:
    """Return a pod's report."""
    numbers = {"processed_total": 40, "queued": 7, "cpu_seconds": 1.5}
    return made(ConsumerProgress, at=at, source=pod, **numbers)


def started(pod: str) -> Any:
    """Return a pod's first report."""
    return made(PodStarted, source=pod, process_started_at=NOW, concurrency=4)


def scrape(
    *records: Record,
    now: int = NOW,
    aliases: RecorderOptions | None = None,
    prefix: str = "lagbench_",
) -> Series:
    """Return the series that a scrape sees after ``records``; those at 0 of gaps are left out."""
    newest = NewestReadings(interval_seconds=1.0)
    for record in records:
        newest.take(record)
    status, text = Exposition(newest, aliases=aliases, now=lambda: now)()
    assert status == 200
    found: Series = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            is_own = sample.name.startswith("lagbench_")
            if is_own == (prefix == "lagbench_") and not (
                "gaps" in sample.name and not sample.value
            ):
                name = sample.name.removeprefix(prefix)
                labels = tuple(sample.labels[key] for key in sorted(sample.labels))
                found.setdefault(name, {})[labels] = sample.value
    return found


def test_before_any_reading_there_is_no_series() -> None:
    """Missing is not zero; that no reading failed is known."""
    _, text = Exposition(NewestReadings(interval_seconds=1.0), now=lambda: NOW)()
    (gaps,) = (f for f in text_string_to_metric_families(text.decode()) if f.samples)

    assert {sample.labels["what"]: sample.value for sample in gaps.samples} == dict.fromkeys(
        get_args(What), 0
    )


LAG = {
    "lag_records": {(): 40},
    "partition_lag_records": {("0",): 40, ("1",): 0},
    "partition_end_offset": {("0",): 100, ("1",): 50},
    "partition_committed_offset": {("0",): 60, ("1",): 52},
}
UNKNOWN = {
    "partition_lag_records": {("0",): 40, ("2",): 0},
    "partition_end_offset": {("0",): 100, ("1",): 50, ("2",): 0},
    "partition_committed_offset": {("0",): 60},
}
HPA = hpa(
    metrics=["s0-kafka: averageValue 1500m", "cpu: averageUtilization 40, averageValue 9m"],
    conditions=["AbleToScale=True Ready", "ScalingActive=False No", "Other=Unknown"],
    targets=["s0-kafka: averageValue 1k", "s1-x: unknown"],
    max_replicas=12,
)
SPIKE = made(LoadStep, step="spike_start", rate_before=10, rate_after=90)
CALM = made(LoadStep, at=NOW + 9, step="spike_end", rate_before=90, rate_after=10)
END = made(StreamFinished, at=NOW + 20)
LATENESS = {"lateness_p50_ms": 2, "lateness_max_ms": 8}
LOAD = made(ProducerProgress, planned=100, sent=99, acked=98, failed=1, **LATENESS)
PHASES = [
    made(Phase, name=name, state=state)
    for name, state in (
        ("start_consumers", "started"),
        ("start_consumers", "finished"),
        ("inject_spike", "started"),
        ("await_ready", "started"),
        ("await_ready", "failed"),
    )
]
STOPPED = made(PodStopped, source="b", processed_total=40)
PODS = [*map(started, "abc"), progress("a"), progress("b"), progress("c", NOW - 11 * SECOND)]
GAP = made(ReadGap, what="hpa", reason="away")


@pytest.mark.parametrize(
    ("records", "series"),
    [
        ([lag((0, 100, 60), (1, 50, 52))], LAG),
        ([lag((0, 100, 60), (1, 50, None), (2, 0, None))], UNKNOWN),
        ([lag()], {}),
        (
            [made(ReplicaSample, spec=6, current=4, ready=3)],
            {"replicas": {("wanted",): 6, ("existing",): 4, ("ready",): 3}},
        ),
        (
            [made(GroupSample, state="stable", members=3, members_without_partitions=1)],
            {
                "group_members": {(): 3},
                "group_idle_members": {(): 1},
                "group_state": {("stable",): 1},
            },
        ),
        (
            [HPA],
            {
                "hpa_metric": {
                    ("hpa", "s0-kafka", "averageValue"): 1.5,
                    ("hpa", "cpu", "averageUtilization"): 40,
                    ("hpa", "cpu", "averageValue"): 0.009,
                },
                "hpa_metric_target": {("hpa", "s0-kafka", "averageValue"): 1000},
                "hpa_condition": {("AbleToScale", "hpa"): 1, ("ScalingActive", "hpa"): 0},
                "hpa_max_replicas": {("hpa",): 12},
            },
        ),
        (
            [scaled("Ready=False TriggerError", "Active=True", "Fallback=Unknown")],
            {"scaled_object_condition": {("Ready", "consumer"): 0, ("Active", "consumer"): 1}},
        ),
        (PHASES, {"phase": {("inject_spike",): 1}}),
        (
            [LOAD],
            {
                "load_events_total": {("planned",): 100, ("sent",): 99, ("acked",): 98}
                | {("failed",): 1},
                "load_lateness_seconds": {("0.5",): 0.002, ("1",): 0.008},
            },
        ),
        (
            [*PODS, STOPPED],
            {
                "consumer_cpu_seconds_total": {("a",): 1.5},
                "consumer_processed_records_total": {("a",): 40},
                "consumer_queued_records": {("a",): 7},
                "consumer_concurrency": {("a",): 4},
            },
        ),
        (
            [made(UsageSample, component="broker", cpu_seconds=3.5, memory_bytes=64), GAP, GAP],
            {
                "component_cpu_seconds_total": {("broker",): 3.5},
                "component_memory_bytes": {("broker",): 64},
                "recorder_gaps_total": {("hpa",): 2},
            },
        ),
    ],
)
def test_a_reading_has_its_series(records: list[Record], series: Series) -> None:
    """What is unknown, has ended or fell silent has none; a total with an unknown part neither."""
    assert scrape(*records) == series


@pytest.mark.parametrize(("age_seconds", "is_shown"), [(2.4, True), (2.6, False)])
def test_a_reading_ends_when_it_is_not_renewed(age_seconds: float, is_shown: bool) -> None:
    """After two and a half intervals the last good value says nothing of now; an alias neither."""
    now = NOW + round(age_seconds * SECOND)

    assert bool(scrape(lag((0, 9, 4)), now=now)) == is_shown
    assert bool(scrape(lag((0, 9, 4)), now=now, aliases=NAMES, prefix="kafka_")) == is_shown


def test_an_older_record_does_not_replace_a_newer_one() -> None:
    """What a former recorder left in the topic is read while this one samples."""
    assert scrape(lag((0, 9, 4)), lag((0, 3, 3), at=NOW - SECOND))["lag_records"] == {(): 5}


def test_the_planned_rate_holds_from_step_to_step_until_the_stream_ends() -> None:
    """A step is a fact that need not be repeated."""
    later = NOW + 3600 * SECOND

    assert scrape(SPIKE, now=later) == {"load_planned_rate": {("spike_start",): 90}}
    assert scrape(SPIKE, CALM, now=later) == {"load_planned_rate": {("spike_end",): 10}}
    assert scrape(SPIKE, CALM, END, now=later) == {}


@pytest.mark.parametrize(
    ("of_replica", "of_group", "shown"),
    [(100.0, None, 375.0), (None, 200.0, 250.0), (100.0, 200.0, 250.0), (None, None, None)],
)
def test_the_lag_above_which_the_policy_scales_is_reported(
    of_replica: float | None, of_group: float | None, shown: float | None
) -> None:
    """It is the lowest target at the wanted replicas, plus the tolerance; none has no series."""
    targets = {"scales_at_records": of_replica, "group_target_records": of_group}
    policy = scaled(**targets, tolerance=0.25)
    replicas = made(ReplicaSample, spec=3, current=2, ready=1)
    found = scrape(policy, replicas).get("scales_above_records")

    assert found == (None if shown is None else {("consumer",): shown})
    assert "scales_above_records" not in scrape(policy)


IN_SPIKES = ("consumer", "spikes")
REPLICAS = made(ReplicaSample, spec=6, current=4, ready=3, available=2)
GROUP = ("enrich.r1", "lagbench.r1.events")


@pytest.mark.parametrize(
    ("records", "names", "series"),
    [
        (
            [
                lag((0, 100, 60), (1, 50, None)),
                made(GroupSample, state="STABLE", members=3, members_without_partitions=1),
            ],
            NAMES,
            {
                "kafka_consumergroup_lag": {(GROUP[0], "0", GROUP[1]): 40},
                "kafka_consumergroup_current_offset": {(GROUP[0], "0", GROUP[1]): 60},
                "kafka_consumergroup_members": {(GROUP[0],): 3},
                "kafka_topic_partition_current_offset": {("0", GROUP[1]): 100, ("1", GROUP[1]): 50},
            },
        ),
        ([lag((0, 9, 4))], NAMES, {"kafka_consumergroup_lag_sum": {GROUP: 5}}),
        (
            [hpa(desired=6, current=4, min_replicas=1, max_replicas=12)],
            NAMES,
            {
                f"kube_horizontalpodautoscaler_{name}": {("hpa", "spikes"): value}
                for name, value in (
                    ("status_desired_replicas", 6),
                    ("status_current_replicas", 4),
                    ("spec_min_replicas", 1),
                    ("spec_max_replicas", 12),
                )
            },
        ),
        ([hpa()], NAMES, {}),
        (
            [hpa(conditions=["AbleToScale=True Ready", "ScalingActive=Unknown"])],
            NAMES,
            {
                "kube_horizontalpodautoscaler_status_condition": {
                    (name, "hpa", "spikes", status): float(status == known)
                    for name, known in (("AbleToScale", "true"), ("ScalingActive", "unknown"))
                    for status in ("true", "false", "unknown")
                }
            },
        ),
        (
            [scaled("Ready=False TriggerError")],
            NAMES,
            {
                "kube_customresource_scaledobject_status_condition": {
                    ("Ready", "spikes", "consumer", status): float(status == "False")
                    for status in ("True", "False", "Unknown")
                }
            },
        ),
        (
            [REPLICAS],
            NAMES,
            {
                "kube_deployment_spec_replicas": {IN_SPIKES: 6},
                "kube_deployment_status_replicas": {IN_SPIKES: 4},
                "kube_deployment_status_replicas_ready": {IN_SPIKES: 3},
                "kube_deployment_status_replicas_available": {IN_SPIKES: 2},
            },
        ),
        (
            [REPLICAS],
            NAMES.model_copy(update={"workload": "StatefulSet"}),
            {
                "kube_statefulset_replicas": {IN_SPIKES[::-1]: 6},
                "kube_statefulset_status_replicas": {IN_SPIKES[::-1]: 4},
                "kube_statefulset_status_replicas_ready": {IN_SPIKES[::-1]: 3},
                "kube_statefulset_status_replicas_available": {IN_SPIKES[::-1]: 2},
            },
        ),
    ],
)
def test_readings_have_the_names_of_other_exporters(
    records: list[Record], names: RecorderOptions, series: Series
) -> None:
    """Where it is asked for; what they would export as -1 or 0 without knowing it is missing."""
    found = scrape(*records, aliases=names, prefix="")
    is_sum = "kafka_consumergroup_lag_sum" in series

    assert ({name: found[name] for name in series} if is_sum else found) == series
    assert scrape(*records, prefix="") == {}
