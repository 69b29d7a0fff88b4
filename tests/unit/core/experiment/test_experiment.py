"""An experiment is checked field by field."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError
from tests.fakes.experiments import experiment

from lagbench.core.compare.experiment import (
    ExpectedValue,
    PlannedRun,
    Progress,
    RunRecord,
    RunVerdict,
    draw_schedule,
)
from lagbench.errors import WrongInput


@pytest.mark.parametrize(
    "changed",
    [
        {"pairs": 5},
        {"pairs": 0},
        {"pairs": 7},
        {"pairs": 10**9},
        {"pairs": "6"},
        {"cells": [{"name": "only"}]},
        {"cells": [{"name": "a"}, {"name": "a"}]},
        {"seeds": [1, 2, 3]},
        {"seeds": [1, 2, 3, 4, 5, 5]},
        {"bounds": {"flips": {"relativ": 1.0}}},
        {"hours": 0},
    ],
)
def test_a_wrong_field_is_rejected_by_its_name(changed: dict[str, Any]) -> None:
    """Five pairs are refused because they can decide nothing."""
    with pytest.raises(ValidationError) as refused:
        experiment(**changed)

    (problem,) = refused.value.errors()
    (field,) = changed
    assert field in (*problem["loc"], problem["msg"].split()[2])


def test_the_settings_of_a_cell_are_those_of_all_cells_and_its_own() -> None:
    """They are texts, as the command line takes them; a cell's own setting wins."""
    found = experiment(
        overrides={"consumer.process_ms": 4, "tail": "none", "consumer.drain": True},
        cells=[{"name": "a"}, {"name": "b", "overrides": {"tail": "until_settled"}}],
    )

    assert found.overrides_of(found.cells[0]) == {
        "consumer.process_ms": "4",
        "tail": "none",
        "consumer.drain": "true",
    }
    assert found.overrides_of(found.cells[1])["tail"] == "until_settled"


def test_the_drawn_seeds_are_those_of_their_rule() -> None:
    """Nobody has chosen them; a recorded experiment has the numbers."""
    assert experiment(seeds="drawn").seeds == tuple(Random(38).sample(range(1, 1000), 12))


def test_the_same_cell_twice_is_a_noise_floor() -> None:
    """Names alone make no difference; a policy or a setting does. Hours are of the file's pairs."""
    assert experiment(cells=[{"name": "a"}, {"name": "b"}]).is_noise_floor
    assert not experiment().is_noise_floor
    assert not experiment(cells=[{"name": "a"}, {"name": "b", "policy": "p"}]).is_noise_floor
    assert experiment().hours_of(12) == 2.0


@pytest.mark.parametrize(
    ("given", "text", "holds", "does_not"),
    [
        (0, "0", [0], [1, -1]),
        ({"above": 0}, "above 0", [1, 0.5], [0]),
        ({"at_least": 13}, "at least 13", [13, 14], [12]),
        ({"below": 20}, "below 20", [19.9], [20]),
        ({"at_most": 5}, "at most 5", [5], [5.1]),
        ({"above": 0, "at_most": 1000}, "above 0 and at most 1,000", [1, 1000], [0, 1001]),
    ],
)
def test_a_value_meets_its_limits(
    given: Any, text: str, holds: list[float], does_not: list[float]
) -> None:
    """A plain number is that number; several limits hold together."""
    expected = ExpectedValue.model_validate(given)

    assert expected.text == text
    assert all(expected.holds(value, value) for value in holds)
    assert all(expected.holds(value, value) is False for value in does_not)


def test_a_precision_that_reaches_over_the_limit_leaves_it_open() -> None:
    """0 for certain and up to 3 in doubt are neither 0 nor above 0; 1 to 3 are above 0."""
    assert ExpectedValue.model_validate(0).holds(0, 3) is None
    assert ExpectedValue(above=0).holds(0, 3) is None
    assert ExpectedValue(above=0).holds(1, 3) is True
    assert ExpectedValue(below=20).holds(19, 21) is None


@pytest.mark.parametrize("given", [{}, {"over": 1}, True, "0", {"above": "0"}])
def test_something_else_is_rejected(given: Any) -> None:
    """No limit at all, an unknown one, or one that is no number."""
    with pytest.raises(ValidationError):
        ExpectedValue.model_validate(given)


SEEDS = [31, 32, 33, 34, 35, 36, 37, 38]


def test_the_runs_of_a_pair_follow_each_other() -> None:
    """Each pair has each cell once, with one seed and one phase, back to back."""
    runs = draw_schedule(experiment(seeds=SEEDS), pairs=8).runs

    for first, second in zip(runs[::2], runs[1::2], strict=True):
        assert {first.cell, second.cell} == {"calm", "eager"}
        assert first.pair == second.pair
        assert first.seed == second.seed == SEEDS[first.pair - 1]
        assert first.hpa_sync_at_seconds == second.hpa_sync_at_seconds
    assert sorted(run.pair for run in runs) == [n for n in range(1, 9) for _ in range(2)]


@pytest.mark.parametrize("order_seed", range(5))
@pytest.mark.parametrize(("pairs", "firsts"), [(6, 3), (8, 4), (12, 6)])
def test_each_cell_comes_first_as_often(order_seed: int, pairs: int, firsts: int) -> None:
    """A machine that warms up within a pair favours neither cell."""
    runs = draw_schedule(experiment(order_seed=order_seed), pairs=pairs).runs

    assert Counter(run.cell for run in runs[::2]) == {"calm": firsts, "eager": firsts}


def test_three_cells_are_balanced_too() -> None:
    """In six pairs each of three cells comes first twice."""
    cells = [{"name": "a"}, {"name": "b", "policy": "p"}, {"name": "c", "policy": "q"}]
    runs = draw_schedule(experiment(cells=cells)).runs

    assert Counter(run.cell for run in runs[::3]) == {"a": 2, "b": 2, "c": 2}
    assert len({run.key for run in runs}) == 18


def test_the_seed_determines_the_order() -> None:
    """The same seed gives the same order, which is recorded; other seeds give others."""
    drawn = [draw_schedule(experiment(order_seed=seed)) for seed in range(8)]

    assert drawn[3] == draw_schedule(experiment(order_seed=3))
    assert drawn[3].order_seed == 3
    assert len({schedule.runs for schedule in drawn}) > 5
    assert any([run.pair for run in s.runs] != sorted(run.pair for run in s.runs) for s in drawn)


def test_the_phases_cover_the_period_evenly_or_stay_free() -> None:
    """Six pairs sample the period of 15 s at its six middles, in a drawn order.

    Free by the file's own wish, or because the HPA of a cluster cannot be asked.
    """
    made, free = experiment(), experiment(phase="free")
    runs = draw_schedule(made).runs
    others = draw_schedule(free).runs + draw_schedule(made, has_known_hpa=False).runs

    phases = {run.pair: run.hpa_sync_at_seconds for run in runs}
    assert sorted(phases.values(), key=float) == [1.25, 3.75, 6.25, 8.75, 11.25, 13.75]
    run = next(run for run in runs if run.key == "pair_2_eager")
    of_cell = {"consumer.balancer": "range", "seed": "2"}
    phase = {"hpa_sync_at_seconds": f"{run.hpa_sync_at_seconds:g}"}
    assert run.overrides(made) == {**of_cell, **phase}
    assert {run.hpa_sync_at_seconds for run in others} == {None}
    assert "hpa_sync_at_seconds" not in others[0].overrides(free)


@pytest.mark.parametrize("pairs", [5, 12])
def test_a_number_of_pairs_that_cannot_be_is_rejected(pairs: int) -> None:
    """Too few to decide anything, or more than the file has seeds."""
    with pytest.raises(WrongInput) as refused:
        draw_schedule(experiment(seeds=SEEDS), pairs=pairs)

    assert (refused.value.field, refused.value.value) == ("pairs", pairs)


SCHEDULE = draw_schedule(experiment())

FIRST, SECOND = SCHEDULE.runs[:2]


def record(run: PlannedRun, verdict: RunVerdict, attempt: int = 1) -> RunRecord:
    """Return the record of a run."""
    return RunRecord(
        pair=run.pair,
        cell=run.cell,
        attempt=attempt,
        run_id=f"r{attempt}",
        verdict=verdict,
        reasons=(),
        began_at=1,
        ended_at=2,
        hpa_sync_at_seconds=None,
    )


def test_a_fail_is_a_result() -> None:
    """A cell that is meant to fail is measured as well as one that passes."""
    nothing = Progress(SCHEDULE, ())
    progress = Progress(SCHEDULE, (record(FIRST, "fail"), record(SECOND, "pass")))

    assert nothing.missing == SCHEDULE.runs
    assert (nothing.done, nothing.is_finished) == (0, False)
    assert (progress.missing, progress.done, progress.gaps) == (SCHEDULE.runs[2:], 2, ())


def test_an_undetermined_run_is_repeated_once_and_at_once() -> None:
    """The second attempt counts; if it is undetermined too, the run is a gap."""
    once = Progress(SCHEDULE, (record(FIRST, "undetermined"),))
    repeated = Progress(SCHEDULE, (*once.records, record(FIRST, "pass", attempt=2)))
    gap = Progress(SCHEDULE, (*once.records, record(FIRST, "undetermined", attempt=2)))

    assert once.missing[0] == FIRST
    assert repeated.measured(FIRST) == repeated.records[1]
    assert repeated.missing[0] == gap.missing[0] == SECOND
    assert (repeated.gaps, gap.gaps) == ((), (FIRST,))


def test_an_undetermined_run_that_measured_its_values_is_a_result() -> None:
    """A run is not chosen by its values: one that lies too close to a limit is not repeated."""
    close = record(FIRST, "undetermined").model_copy(update={"is_result": True})
    invalid = record(SECOND, "fail").model_copy(update={"is_result": False})
    progress = Progress(SCHEDULE, (close, invalid))

    assert progress.measured(FIRST) == close
    assert progress.missing[0] == SECOND


def test_all_runs_with_a_result_or_a_gap_finish_it() -> None:
    """The order of the records makes no difference."""
    records = [record(run, "pass") for run in reversed(SCHEDULE.runs[1:])]
    gap = [record(FIRST, "undetermined", 2), record(FIRST, "undetermined", 1)]

    assert Progress(SCHEDULE, (*records, *gap)).is_finished
    assert not Progress(SCHEDULE, tuple(records)).is_finished


def test_a_run_takes_as_long_as_the_longest_of_its_cell() -> None:
    """Never less than planned: a first run says nothing of a slow machine."""
    took = record(FIRST, "pass").model_copy(update={"ended_at": 1 + 300 * 10**9})
    progress = Progress(SCHEDULE, (took, record(SECOND, "pass")))

    assert progress.expected_seconds(FIRST, 200) == 300
    assert progress.expected_seconds(SECOND, 200) == 200
