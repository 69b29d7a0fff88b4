"""The order of the runs is random, balanced, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.fakes.experiments import experiment

from lagbench.core.experiment.schedule import draw_schedule
from lagbench.errors import WrongInput

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


def test_the_phases_cover_the_period_evenly() -> None:
    """Six pairs sample the period of 15 s at its six middles, in a drawn order."""
    runs = draw_schedule(experiment()).runs
    phases = {run.pair: run.hpa_sync_at_seconds for run in runs}

    assert sorted(phases.values(), key=float) == [1.25, 3.75, 6.25, 8.75, 11.25, 13.75]


def test_a_phase_can_stay_free() -> None:
    """By the file's own wish, or because the HPA of a cluster cannot be asked."""
    free = draw_schedule(experiment(phase="free"))
    cluster = draw_schedule(experiment(), has_known_hpa=False)

    assert {run.hpa_sync_at_seconds for run in (*free.runs, *cluster.runs)} == {None}
    assert "hpa_sync_at_seconds" not in free.runs[0].overrides(experiment(phase="free"))


def test_a_run_has_the_settings_of_its_pair() -> None:
    """Seed and phase join the settings of the cell."""
    made = experiment()
    run = next(run for run in draw_schedule(made).runs if run.key == "pair_2_eager")

    assert run.overrides(made) == {
        "consumer.balancer": "range",
        "seed": "2",
        "hpa_sync_at_seconds": f"{run.hpa_sync_at_seconds:g}",
    }


@pytest.mark.parametrize("pairs", [5, 12])
def test_a_number_of_pairs_that_cannot_be_is_rejected(pairs: int) -> None:
    """Too few to decide anything, or more than the file has seeds."""
    with pytest.raises(WrongInput) as refused:
        draw_schedule(experiment(seeds=SEEDS), pairs=pairs)

    assert (refused.value.field, refused.value.value) == ("pairs", pairs)
