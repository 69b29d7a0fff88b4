"""Claims that must hold of every run."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import pytest
from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures.accounting.accounting import (
    Accounting,
    CommitMove,
    MovedKeys,
    StrangeRecord,
)
from lagbench.core.measures.accounting.accounting_sums import SUMS
from lagbench.core.measures.checks import moved_back, rebalance_count, reconciliation, scale_down
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NamedMeasure
from lagbench.core.measures.spark_measures import SparkMeasures
from lagbench.core.scenario.scenario import Slos
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


def test_a_good_run_reconciles() -> None:
    """Nothing speaks against it and nothing is unknown."""
    check = reconciliation(GOOD.accounting)

    assert (check.holds, check.numbers["against"], check.reasons) == (True, {}, ())


@pytest.mark.parametrize(
    "name",
    [
        "lost",
        "not_in_log",
        "expired",
        "log_holes",
        "unknown_message",
        "duplicated",
        "reordered",
        "zombie",
        "not_yet_consumed",
        "produced_twice",
    ],
)
def test_each_class_breaks_the_claim(name: str) -> None:
    """One message of any class is named."""
    check = reconciliation(accounting(**{name: 1}))

    assert (check.holds, check.numbers["against"]) == (False, {name: 1})


def test_what_the_producer_never_said_is_not_known() -> None:
    """Without its last word the claim neither holds nor fails."""
    check = reconciliation(accounting(produced_acked=None))

    assert check.holds is None
    assert check.numbers["not_known"] == ["produced_acked"]


def test_what_the_slos_judge_is_no_further_reason() -> None:
    """A scenario may allow repeats: the check must not take that back."""
    assert reconciliation(accounting(**repeated(5))).reasons == ()


def test_a_message_written_twice_is_another_load() -> None:
    """No SLO says it."""
    found = GOOD.accounting
    acked = (found.produced_acked or 0) - 3
    (reason,) = reconciliation(accounting(produced_twice=3, produced_acked=acked)).reasons

    assert reason.split()[0] == "3"


def test_totals_that_do_not_add_up_contradict_themselves() -> None:
    """One message of the log is neither processed nor lost nor waiting."""
    in_log = GOOD.accounting.in_log
    assert in_log is not None

    reasons = reconciliation(accounting(processed_distinct=in_log - 1)).reasons

    assert f" {in_log - 1:,} " in reasons[0]
    assert f" {in_log:,}" in reasons[0]


def test_messages_beyond_those_produced_contradict_the_producer() -> None:
    """The log has 50,000 processed messages more than were handed over: another wrote to it."""
    more = (GOOD.accounting.in_log or 0) + 50_000
    named = ("in_log", "processed_distinct", "processed_records", "processed_by_pods")

    reasons = reconciliation(accounting(**dict.fromkeys(named, more))).reasons

    acked = f"{GOOD.accounting.produced_acked:,}"
    assert any(f"{more:,}" in reason and acked in reason for reason in reasons)


def test_an_empty_log_proves_nothing() -> None:
    """Every count is zero, and so is what was offered."""
    counts = {name: 0 for name in SUM_NAMES if getattr(GOOD.accounting, name) is not None}

    check = reconciliation(accounting(**counts))

    assert len(check.reasons) == 1


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


def test_a_count_that_this_version_records_must_be_there() -> None:
    """It was taken out of the file: nothing is said to be zero."""
    (reason,) = reconciliation(accounting(lacks=("foreign",))).reasons

    assert "foreign" in reason


def test_without_accounting_nothing_is_reconciled() -> None:
    """Not known, and said."""
    check = reconciliation(Accounting())

    assert (check.holds, len(check.reasons)) == (None, 1)


def test_a_good_run_rebalanced_by_scaling_alone() -> None:
    """Five steps, each a rebalance of the pods that came or went."""
    check = rebalance_count(GOOD)

    assert (check.holds, check.reasons) == (True, ())
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

    assert check.holds is holds
    assert bool(check.reasons) is not holds


@pytest.mark.parametrize("bound", ["measured_from_at", "measured_until_at"])
def test_rebalances_outside_the_measurement_window_do_not_count(bound: str) -> None:
    """Pods may join one by one before the stream, and leave when the bench stops them."""
    edge = getattr(GOOD, bound)
    outside = edge - 1 if bound == "measured_from_at" else edge + 1

    assert rebalance_count(rebalanced(["other"], at=outside)).holds
    assert not rebalance_count(rebalanced(["other"], at=edge)).holds


def test_a_group_that_was_never_seen_to_rebalance_is_not_known() -> None:
    """Its members must have joined: nobody saw it."""
    nothing = GOOD.rebalances.model_copy(update={"episodes": ()})

    check = rebalance_count(GOOD.model_copy(update={"rebalances": nothing}))

    assert check.holds is None
    assert check.reasons


def ended_at(replicas: int | None) -> Measures:
    """Return the good run, which has a floor of 2, ended with a number of replicas."""
    is_at_floor = None if replicas is None else replicas == 2
    end = GOOD.end_state.model_copy(update={"replicas": replicas, "is_at_floor": is_at_floor})
    return GOOD.model_copy(update={"end_state": end})


def test_a_scale_down_that_was_cut_off_is_reported() -> None:
    """A run that ended with 12 replicas says so; one whose end nobody saw does not claim it."""
    assert scale_down(ended_at(2)).reasons == ()
    cut_off, unknown = scale_down(ended_at(12)), scale_down(ended_at(None))

    assert (cut_off.holds, unknown.holds) == (False, None)
    assert re.findall(r"\d+", cut_off.reasons[0])[:2] == ["12", "2"]
    assert len(unknown.reasons) == 1


def test_a_commit_that_moved_back_is_reported() -> None:
    """The recorder saw the offset fall: a note, with partition and instant."""
    assert moved_back(GOOD) == ""
    started_at = GOOD.load.stream_started_at
    assert started_at is not None
    move = CommitMove(at=started_at + 12_000_000_000, partition=3, from_offset=500, to_offset=400)
    run = GOOD.model_copy(update={"accounting": accounting(commit_moves=(move,))})

    assert re.findall(r"[\d.]+", moved_back(run)) == ["1", "100", "3", "500", "400", "12.0"]


def test_the_groups_own_start_is_not_counted_as_a_rebalance_of_the_run() -> None:
    """The first episode is the group's start; the measure counts the five scale steps after it."""
    first, *others = GOOD.rebalances.episodes

    assert first.trigger == "start"
    assert NAMED["rebalances"].read(GOOD) == len(others) == GOOD.rebalances.count - 1


# An SLO that must hold has no number, so no measure.
CLAIMS = {"lag_falls_at_full_parallelism", "baseline_at_floor", "surplus_pods_idle"}

NEEDS_AN_OCCASION = {
    "first_event_wait_seconds",
    "action_dip_percent",
    "action_area_seconds",
    "action_recovery_seconds",
}

NOT_OF_A_RUN = {"pod_minutes_in_all", "seconds_over_slo", "settled_seconds", "watched_seconds"}


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
