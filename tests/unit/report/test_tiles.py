"""The tiles at the top of the report."""

from __future__ import annotations

from tests.fakes.measured_run import quick_spike_measures

from lagbench.core.measures import NAMED, Measures
from lagbench.report.tiles import tiles

GOOD = quick_spike_measures()


def dip_note(measures: Measures) -> str:
    """Return the note of the tile of the dip."""
    title = NAMED["rebalance_dip_percent"].title
    return next(tile.note for tile in tiles(measures) if tile.title == title)


def with_windows(*steps: tuple[float | None, float | None, str]) -> Measures:
    """Return the run with an episode of each (dip, window, trigger)."""
    one = GOOD.rebalances.episodes[1]
    episodes = tuple(
        one.model_copy(update={"dip_percent": dip, "window_seconds": window, "trigger": trigger})
        for dip, window, trigger in steps
    )
    found = GOOD.rebalances.model_copy(update={"episodes": episodes})
    return GOOD.model_copy(update={"rebalances": found})


def test_the_dip_names_the_window_of_the_deepest_scale_step() -> None:
    """At a low rate it is wider than 1 s; a death is no scale step."""
    run = with_windows((10.0, 1.0, "scale_up"), (30.0, 2.5, "scale_down"), (90.0, 5.0, "pod_death"))

    assert dip_note(run).startswith("deepest, in a 2.5 s window; ")


def test_a_dip_that_was_not_measured_has_no_window() -> None:
    """No width is made up for it."""
    assert dip_note(with_windows((None, None, "scale_up"))).startswith("deepest; ")
