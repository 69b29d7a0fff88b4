"""What lagbench plan predicts."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from lagbench.catalog.catalog import Cell, checked_cell
from lagbench.core.policy.policy import Policy, check_policy
from lagbench.core.scenario.event_stream import partition_of_key
from lagbench.core.scenario.stream_tail import Tail
from lagbench.core.simulation.plan import Plan, cannot_carry, cores_needed, plan_cell, skew_text
from lagbench.core.simulation.spark_needs import check_spark_fit
from lagbench.errors import WrongInput


def plan(scenario: str, policy: str | None = None, **overrides: str) -> Plan:
    """Return the plan of a catalog scenario."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    cell = checked_cell(scenario, policy=policy, overrides=dotted)
    return plan_cell(cell.scenario, cell.policy)


def changed(policy: Policy, **spec: object) -> Policy:
    """Return the policy with other fields of its spec."""
    manifest = {**policy.manifest, "spec": {**policy.manifest["spec"], **spec}}
    return check_policy(manifest, where="changed")


def test_quick_spike_meets_the_ceiling_and_the_skew() -> None:
    """The peak is all that 12 partitions can feed, and one partition gets twice a pod's rate."""
    found = plan("quick_spike")

    assert (found.messages, found.stream_seconds) == (375_000, 85)
    assert (found.pod_rate, found.pods_needed_at_base, found.pods_needed_at_peak) == (500, 2, 12)
    assert found.is_saturated
    assert found.is_skew_limited
    assert found.hottest_rate == pytest.approx(986, abs=2)
    # 600/s go on for 300 s of drain, 600 s of settling and 120 s between them at most.
    assert found.tail == Tail(600, 1020)
    assert found.most_messages == 375_000 + 612_000
    assert found.disk_bytes == found.most_messages * 280
    # 15 s of 500/s are 15 thresholds of 500; lag then rests at 1 s, at any rate.
    assert (found.loop_gain, found.standing_lag_seconds) == (15, 1)
    free = plan("quick_spike", consumer__process_ms="0")
    assert (free.pod_rate, free.pods_needed_at_peak) == (math.inf, 1)
    assert (free.is_saturated, free.standing_lag_seconds) == (False, None)


def test_the_spikes_of_a_trace_are_planned() -> None:
    """Above the 1,000/s of two pods from 55 s to 160 s; noise that marks none has none."""
    found = plan("trace_example")

    assert [(s.start_seconds, s.end_seconds, s.rate_peak) for s in found.spikes] == [
        (55, 160, 4500)
    ]
    assert plan("noisy_baseline").spikes == ()


@pytest.mark.parametrize(
    ("partitions", "ceiling", "sticking"),
    [
        (8, 8, ()),
        (10, 10, ()),
        (12, 12, (11,)),
        (24, 24, (22, 23)),
        (64, 64, (59, 60, 61, 62, 63)),
        (24, 23, (22,)),  # 22 of 24 wanted stay there, so 23 are never reached
        (24, 22, ()),
    ],
)
def test_replica_counts_at_which_the_tolerance_stops_a_scale_out(
    partitions: int, ceiling: int, sticking: tuple[int, ...]
) -> None:
    """Counts n with P/n <= 1.1 stick: what users saw at 24 and at 64 partitions."""
    cell = checked_cell("quick_spike", overrides={"partitions": str(max(partitions, 12))})
    policy = changed(cell.policy, maxReplicaCount=ceiling)
    scenario = cell.scenario.model_copy(update={"partitions": partitions})

    assert plan_cell(scenario, policy).sticking_replicas == sticking


def test_more_replicas_than_partitions_add_no_capacity() -> None:
    """With KEDA's cap on, a maximum above the partitions means one surplus replica."""
    cell = checked_cell("quick_spike", overrides={"allow_overscale": "true"})
    capped = plan_cell(cell.scenario, changed(cell.policy, maxReplicaCount=13))
    free = plan("quick_spike", "lag-overscale-2p", allow_overscale="true")

    assert (capped.leaks_one_replica, capped.useful_replicas) == (True, 12)
    assert any("integer division" in warning for warning in capped.warnings)
    assert not free.leaks_one_replica
    assert (free.max_replicas, free.useful_replicas, free.capacity_per_second) == (24, 12, 6000)


def test_a_policy_on_cpu_is_taken_to_stay_at_its_floor() -> None:
    """Without lag as a signal two pods face the spike, and the plan warns of it."""
    found = plan("quick_spike", "cpu-only")

    assert (found.capacity_per_second, found.loop_gain) == (1000, None)
    assert "its 2 replicas" in found.warnings[0]


@pytest.mark.parametrize(
    ("scenario", "overrides", "word", "is_warned_of"),
    [
        ("quick_spike", {"consumer__process_ms": "60000"}, "never drains", True),
        ("quick_spike", {}, "never drains", False),
        (
            "steady",
            {"profile__rate_per_second": "900", "policy": "lag-no-hysteresis"},
            "noise",
            True,
        ),
        ("trace_example", {}, "milliseconds", False),
        # 2 ms become 2.15, and no pod was seen above 53,000/s.
        ("quick_spike", {"consumer__work": "waited"}, "does about 465/s of 500/s", True),
        ("quick_spike", {"consumer__work": "waited", "consumer__process_ms": "4"}, "about", False),
        (
            "quick_spike",
            {"consumer__work": "waited", "consumer__concurrency": "200"},
            "does about 53,000/s of 100,000/s",
            True,
        ),
        # The floor of two pods does 1,000/s: more, 95 % and 90 % of it.
        ("quick_spike", {"profile__rate_per_second": "1200"}, "raise the floor to 3", True),
        ("quick_spike", {"profile__rate_per_second": "950"}, "raise the floor to 3", True),
        ("quick_spike", {"profile__rate_per_second": "900"}, "the floor", False),
        ("quick_spike", {"keys__zipf_s": "1.2"}, "(keys.zipf_s 1.2; 0 is even)", True),
        (
            "quick_spike",
            {"actions": "[{kind: grow_partitions, at_seconds: 20, partitions: 24}]"},
            "from second 20 on there are 24 partitions",
            True,
        ),
    ],
)
def test_what_a_person_should_know_before_starting(
    scenario: str, overrides: dict[str, str], word: str, is_warned_of: bool
) -> None:
    """At a minute a message twelve pods do less than the base rate; a threshold may be noise."""
    found = plan(scenario, **overrides)

    assert any(word in one for one in found.warnings) is is_warned_of


def test_a_trace_in_milliseconds_is_asked_for_and_its_skew_is_named(tmp_path: Path) -> None:
    """A minute in milliseconds would be 17 hours, which a stream may take."""
    (tmp_path / "t.csv").write_text("second,rate\n0,5\n20000,9\n60000,0\n")
    (tmp_path / "s.yaml").write_text(
        "{name: t, description: t, partitions: 12, policy: lag-quick, "
        "profile: {kind: trace, file: t.csv}}"
    )

    path = str(tmp_path / "s.yaml")
    assert any("milliseconds" in one for one in plan(path).warnings)
    assert skew_text(checked_cell(path).scenario) == " (keys.zipf_s 1.1, the default; 0 is even)"


def test_the_samples_of_a_payload_are_planned() -> None:
    """The hottest partition is that of the samples' keys, and the log holds their sizes."""
    cell = checked_cell("own_messages")
    found = plan_cell(cell.scenario, cell.policy)

    payload = cell.scenario.payload
    assert payload is not None
    lines = Path(payload.file).read_bytes().splitlines()
    customers = [json.loads(line)["customer"]["id"].encode() for line in lines]
    places = Counter(partition_of_key(customer, 12) for customer in customers)
    ((hottest, count),) = places.most_common(1)
    assert found.hottest_partition == hottest
    assert found.hottest_rate == pytest.approx(1_600 * count / len(lines))
    assert found.disk_bytes > found.most_messages * sum(map(len, lines)) / len(lines)


@pytest.mark.parametrize(
    ("before", "after", "at_once", "is_warned_of"),
    [
        ("cooperative-sticky", "consumer", False, True),
        ("range", "cooperative-sticky", False, True),
        ("cooperative-sticky", "consumer", True, False),
        ("range", "consumer", False, False),
        ("consumer", "cooperative-sticky", False, False),
    ],
)
def test_a_move_that_the_broker_rejects_is_warned_of(
    before: str, after: str, at_once: bool, is_warned_of: bool
) -> None:
    """A live group moves from cooperative-sticky, or between classic balancers, only at a stop."""
    restart = {"kind": "rolling_restart", "at_seconds": 15, "balancer": after, "at_once": at_once}
    found = plan(
        "lab_restart",
        actions=json.dumps([restart]),
        consumer__balancer=before,
        consumer__workload="Deployment",
    )

    assert any("rejects" in warning for warning in found.warnings) is is_warned_of


@pytest.mark.parametrize(
    ("scenario", "low", "high"),
    [
        ("quick_spike", 0.8, 1.2),  # it took one core of two
        ("lab_full_spike", 1.0, 1.7),  # 1.2 of two: pods that are behind fetch full batches
        ("spark_consumer", 0.9, 1.1),  # driver, workers and tasks beside broker and producer
    ],
)
def test_the_cores_of_a_scenario(scenario: str, low: float, high: float) -> None:
    """The rule of thumb is near what was measured, and two cores carry it."""
    assert low < cores_needed(plan(scenario)) < high
    assert cannot_carry(plan(scenario), cores=2, speed=0.85) == ""


@pytest.mark.parametrize(
    ("scenario", "more", "less", "cores"),
    [
        # 2 ms of wait and 3 ms of CPU are 200/s a pod: 12 pods burn 2,400 times 3 ms in a second.
        ("quick_spike", {"consumer.cpu_ms": "3"}, {"consumer.process_ms": "5"}, 7.2),
        # A millisecond of CPU for each message is a core for each 1,000/s of all that is done.
        ("own_consumer", {"consumer.cpu_ms": "1", "consumer.process_ms": "3"}, {}, None),
        ("spark_consumer", {"consumer.cpu_ms": "1", "consumer.process_ms": "3"}, {}, None),
        ("spark_consumer", {"partitions": "12"}, {}, 6 * 0.05),  # a task is 0.05 cores
    ],
)
def test_work_needs_cores(
    scenario: str, more: dict[str, str], less: dict[str, str], cores: float | None
) -> None:
    """The work of cpu_ms, and Spark's tasks, come on top."""
    with_work = plan(scenario, **more)
    done = min(with_work.peak_rate, with_work.capacity_per_second)

    added = cores_needed(with_work) - cores_needed(plan(scenario, **less))
    assert added == pytest.approx(done / 1000 if cores is None else cores)


def test_a_machine_that_lacks_cores_is_reported_how_many() -> None:
    """The text has the need, the peak and what is there; slower cores are worth less."""
    text = cannot_carry(plan("standard_spike"), cores=1)

    assert "60,000/s" in text
    assert " 1" in text.split(",")[-1]
    assert cannot_carry(plan("quick_spike"), cores=2, speed=0.6) == ""
    assert cannot_carry(plan("quick_spike"), cores=2, speed=0.25)


def test_the_code_of_an_own_consumer_is_not_counted() -> None:
    """Nobody knows its cost: broker and producer are left."""
    own = plan("own_consumer")

    assert cores_needed(own) < cores_needed(replace(own, is_own=False)) - 0.1
    assert cannot_carry(own, cores=1) == ""
    assert cannot_carry(own, cores=1, speed=0.1)


def spark_cell(**overrides: str) -> Cell:
    """Return spark_consumer with changes."""
    return checked_cell("spark_consumer", overrides=overrides)


def test_spark_fits_the_machine_that_its_scenario_names() -> None:
    """Four workers, driver and master take less than 8 GiB; the policy's ceiling is named."""
    cell = spark_cell()
    needed = plan_cell(cell.scenario, cell.policy).memory_mebibytes

    assert needed is not None
    assert 4_000 < needed < 8_192
    with pytest.raises(WrongInput, check=lambda error: error.field == "spec.maxReplicaCount"):
        check_spark_fit(cell.scenario, cell.policy, memory_mebibytes=2_000)


@pytest.mark.parametrize(
    ("field", "overrides"),
    [
        # A task is one partition: the other cores could never have work.
        (
            "cores_per_worker",
            {
                "partitions": "4",
                "consumer.concurrency": "6",
                "consumer.spark.cores_per_worker": "3",
            },
        ),
        # An executor needs a worker, and the floor of the policy has two.
        ("dynamic_allocation_min", {"consumer.spark.dynamic_allocation_min": "3"}),
    ],
)
def test_a_floor_that_spark_cannot_use_is_rejected(field: str, overrides: dict[str, str]) -> None:
    """The field is named."""
    wrong = f"consumer.spark.{field}"
    with pytest.raises(WrongInput, check=lambda error: error.field == wrong):
        spark_cell(**overrides)


@pytest.mark.parametrize(
    ("overrides", "is_warned_of"),
    [({"profile.rate_per_second": "1500", "profile.spike_mult": "2"}, True), ({}, False)],
)
def test_a_threshold_below_the_saw_is_warned_of(
    overrides: dict[str, str], is_warned_of: bool
) -> None:
    """At 1,500/s two workers' batches publish more than the policy's lagThreshold lets them."""
    warnings = plan("spark_consumer", **overrides).warnings

    assert any("saw" in text for text in warnings) is is_warned_of
