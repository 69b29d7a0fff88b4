"""Claims that must hold of every run."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from tests.fakes.measured_run import changed, quick_spike_measures

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    CommitMove,
    MovedKeys,
    StrangeRecord,
)
from lagbench.core.measures.accounting.accounting_sums import SUMS
from lagbench.core.measures.checks import (
    cut_off_scale_down,
    moved_back,
    rebalance_count,
    reconciliation,
)
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NamedMeasure
from lagbench.core.measures.spark_measures import SparkMeasures
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.simulation.simulation_measures import COMPARED, SimulationMeasures

SUM_NAMES = {name for wanted in SUMS for name in (*wanted.parts, *wanted.total)}
GOOD = quick_spike_measures()


def accounting(**fields: Any) -> Accounting:
    """Return the good run's accounting, changed."""
    return GOOD.accounting.model_copy(update=fields)


def repeated(count: int) -> dict[str, Any]:
    """Return the counts of a run in which ``count`` processings were one too many."""
    done = (GOOD.accounting.processed_records or 0) + count
    return {
        "duplicated": count,
        "duplicated_by_pods": count,
        "processed_records": done,
        "processed_by_pods": done,
    }


def rebalanced(causes: list[str], *, at: int | None = None, pods: int = 4) -> Measures:
    """Return the good run with these rebalances and ``pods`` pods added and removed."""
    first, template = GOOD.rebalances.episodes[:2]
    change = {"started_at": template.started_at if at is None else at}
    episodes = [first, *(template.model_copy(update=change | {"trigger": c}) for c in causes)]
    scaled = GOOD.scaling.changes[0].model_copy(
        update={"replicas_before": 2, "replicas_after": 2 + pods}
    )
    return GOOD.model_copy(
        update={
            "rebalances": GOOD.rebalances.model_copy(update={"episodes": tuple(episodes)}),
            "scaling": GOOD.scaling.model_copy(update={"changes": (scaled,)}),
        }
    )


IN_LOG, ACKED = GOOD.accounting.in_log or 0, GOOD.accounting.produced_acked or 0
BEYOND = dict.fromkeys(
    ("in_log", "processed_distinct", "processed_records", "processed_by_pods"), IN_LOG + 50_000
)
EMPTY = {name: 0 for name in SUM_NAMES if getattr(GOOD.accounting, name) is not None}


@pytest.mark.parametrize(
    ("fields", "holds", "numbers"),
    [
        ({}, True, []),
        ({"produced_acked": None}, None, []),  # the producer never said its last word
        (repeated(5), False, []),  # what an SLO judges is no further reason
        ({"produced_twice": 3, "produced_acked": ACKED - 3}, False, ["3"]),  # another load
        ({"processed_distinct": IN_LOG - 1}, False, [f"{IN_LOG - 1:,}", f"{IN_LOG:,}"]),
        (BEYOND, False, [f"{IN_LOG + 50_000:,}", f"{ACKED:,}"]),  # another wrote to the log
        (EMPTY, None, []),  # it proves nothing
        ({"lacks": ("foreign",)}, None, []),  # a count was taken out of the file
    ],
)
def test_an_accounting_reconciles_where_nothing_speaks_against_it(
    fields: dict[str, Any], holds: bool | None, numbers: list[str]
) -> None:
    """Every count that is wrong or missing is a reason, except what the SLOs judge."""
    check = reconciliation(accounting(**fields))

    assert check.holds is holds
    assert set(numbers) <= set(re.findall(r"\d[\d,]*", " ".join(check.reasons)))
    without = reconciliation(Accounting())
    assert (without.holds, len(without.reasons)) == (None, 1)
    assert bool(check.reasons) is (fields not in ({}, {"produced_acked": None}, repeated(5)))


@pytest.mark.parametrize(
    "name",
    [
        *("lost", "not_in_log", "expired", "log_holes", "unknown_message", "duplicated"),
        *("reordered", "zombie", "not_yet_consumed", "produced_twice"),
    ],
)
def test_each_class_breaks_the_claim(name: str) -> None:
    """One message of any class is named."""
    check = reconciliation(accounting(**{name: 1}))

    assert (check.holds, check.numbers["against"]) == (False, {name: 1})


def test_strangers_are_named_with_their_place() -> None:
    """Sixty records in the log are no events: how many, and where the first lies."""
    found = GOOD.accounting
    where = StrangeRecord(topic="events", partition=3, offset=88, detail="9 bytes")

    check = reconciliation(
        accounting(foreign=60, in_log=(found.in_log or 0) + 60, in_partitions=None).model_copy(
            update={"strangers": (where,), "below_fence": None}
        )
    )

    (reason,) = check.reasons
    assert re.findall(r"\d+", reason) == ["60", "3", "88", "9"]
    assert check.holds is False


def test_a_good_run_rebalanced_by_scaling_alone() -> None:
    """Five steps, each a rebalance of the pods that came or went."""
    check = rebalance_count(GOOD)

    assert (check.holds, check.reasons) == (True, ())
    assert NAMED["rebalances"].read(GOOD) == 5  # without the group's start
    assert check.numbers["by_cause"] == {"scale_up": 3, "scale_down": 2}


@pytest.mark.parametrize(
    ("causes", "holds"),
    [
        (["scale_up", "scale_down"], True),
        (["scale_up", "other"], False),
        (["pod_death"], False),
        (["scale_up"] * 5, False),
    ],
)
def test_rebalances_are_explained_by_scaling(causes: list[str], *, holds: bool) -> None:
    """Every rebalance has a scale step behind it, and there are no more than moved pods."""
    check = rebalance_count(rebalanced(causes))
    nothing = GOOD.rebalances.model_copy(update={"episodes": ()})
    unseen = rebalance_count(GOOD.model_copy(update={"rebalances": nothing}))

    assert check.holds is holds
    assert bool(check.reasons) is not holds
    assert (unseen.holds, bool(unseen.reasons)) == (None, True)  # nobody saw even the first


@pytest.mark.parametrize("bound", ["measured_from_at", "measured_until_at"])
def test_rebalances_outside_the_measurement_window_do_not_count(bound: str) -> None:
    """Pods may join one by one before the stream, and leave when the bench stops them."""
    edge = getattr(GOOD, bound)
    outside = edge - 1 if bound == "measured_from_at" else edge + 1

    assert rebalance_count(rebalanced(["other"], at=outside)).holds
    assert not rebalance_count(rebalanced(["other"], at=edge)).holds


@pytest.mark.parametrize(
    ("replicas", "is_at_floor", "numbers"),
    [(2, True, []), (12, False, ["12", "2"]), (None, None, [])],
)
def test_a_scale_down_that_was_cut_off_is_reported(
    replicas: int | None, is_at_floor: bool | None, numbers: list[str]
) -> None:
    """A run with a floor of 2; one whose end nobody saw does not claim it."""
    note = cut_off_scale_down(changed("end_state", replicas=replicas, is_at_floor=is_at_floor))

    assert re.findall(r"\d+", note)[:2] == numbers
    assert bool(note) is (is_at_floor is not True)
    if is_at_floor is False:  # a tail that ended by itself left nothing out
        assert "at rest" in cut_off_scale_down(changed("end_state", is_at_floor=False), "settled")


def test_a_commit_that_moved_back_is_reported() -> None:
    """The recorder saw the offset fall: a note, with partition and instant."""
    assert moved_back(GOOD) == ""
    started_at = GOOD.load.stream_started_at
    assert started_at is not None
    move = CommitMove(at=started_at + 12_000_000_000, partition=3, from_offset=500, to_offset=400)
    run = GOOD.model_copy(update={"accounting": accounting(commit_moves=(move,))})

    assert re.findall(r"[\d.]+", moved_back(run)) == ["1", "100", "3", "500", "400", "8.0"]


# An SLO that must hold has no number, so no measure.
CLAIMS = {"lag_falls_at_full_parallelism", "baseline_at_floor", "surplus_pods_idle"}
NEEDS_AN_OCCASION = {
    "net_records_per_pod_minute",  # the run has no table of the work by partition
    "first_event_wait_seconds",
    "action_dip_percent",
    "action_area_seconds",
    "action_recovery_seconds",
}
NOT_OF_A_RUN = {
    "pod_minutes_in_all",
    "seconds_over_slo",
    "settled_seconds",
    "spike_replicas",
    "watched_seconds",
}


def test_no_two_measures_have_one_title() -> None:
    """Each title stands for one number."""
    assert len({measure.title for measure in NAMED.values()}) == len(NAMED)


SPARK = SparkMeasures(
    trigger_seconds=2,
    batches=3,
    batch_seconds=1.5,
    batch_max_seconds=3,
    batches_over_trigger=1,
    input_rows_per_second=400,
    processed_rows_per_second=500,
    tasks=18,
    tasks_recomputed=0,
    rows_recomputed=0,
    task_seconds=20,
    executor_seconds=30,
    publish_delay_seconds=0.5,
    publish_delay_max_seconds=1,
    driver_starts=1,
)
"""Of a run whose consumer is on Spark; the spike's was a consumer group."""


@pytest.mark.parametrize("measure", NAMED.values(), ids=lambda measure: measure.name)
def test_every_measure_is_read_from_a_run(measure: NamedMeasure) -> None:
    """On a run that measured everything each has a value, inside its interval if it has one.

    Without an idle stretch or an action those that need one have none, which is not zero.
    """
    run = quick_spike_measures()
    moved = MovedKeys(keys=9, messages=90, overtaken_keys=2, overtaken=4, overtaken_in_doubt=1)
    grown = run.accounting.model_copy(update={"moved": moved})  # measured only after a growth
    run = run.model_copy(update={"accounting": grown, "spark": SPARK})
    value = measure.read(run)

    if measure.name in NEEDS_AN_OCCASION:
        assert value is None
        return
    assert value is not None
    if measure.interval is not None and (bounds := measure.interval(run)) is not None:
        assert bounds[0] <= value <= bounds[1]


@pytest.mark.parametrize("name", sorted(set(Slos.model_fields) - CLAIMS))
def test_every_limit_is_on_a_named_measure(name: str) -> None:
    """The field of a limit in a scenario is the name of the measure that it limits."""
    assert name in NAMED


def test_the_simulator_uses_the_names_of_a_run() -> None:
    """A simulated number is a named measure of a run, or one that no run can have."""
    simulated = {field.name for field in fields(SimulationMeasures)}

    assert simulated - NOT_OF_A_RUN <= set(NAMED)
    assert {measure.name for measure in COMPARED} <= simulated


def test_a_number_is_shown_with_its_unit_and_digits() -> None:
    """The registry owns how a value reads; what was not measured is a dash."""
    drain = NAMED["drain_seconds"]

    assert drain.heading == "Lag drain, s"
    assert (drain.text(99.24), drain.number(1234.0), drain.text(None)) == ("99.2 s", "1,234.0", "–")
    assert drain.spread(5.0, 4.0, 6.26) == "5.0 (4.0 to 6.3)"
    assert drain.spread(5.01, 5.0, 5.02) == "5.0"
