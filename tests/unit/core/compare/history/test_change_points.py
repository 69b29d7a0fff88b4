"""Change points of a cell: segments, suspicion and confirmation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lagbench.core.compare.compare import Bound
from lagbench.core.compare.history.change_points import by_cell, cell_history
from lagbench.core.compare.history.history_row import HistoryRow, flat_manifest

MANIFEST = {"machine.cores": "2", "versions.kafka": "4.3.1"}
BOUNDS = (Bound("reaction_seconds", absolute=2), Bound("pod_minutes", relative=0.25))


def rows_of(
    reactions: Sequence[float | None],
    *,
    manifests: Mapping[int, dict[str, str]] | None = None,
    **more: Any,
) -> list[HistoryRow]:
    """Return a row per value; ``manifests`` takes effect from that row on."""
    found, manifest = [], MANIFEST
    for index, value in enumerate(reactions):
        manifest = (manifests or {}).get(index, manifest)
        given: dict[str, Any] = {
            "run_id": f"run-{index:02}",
            "created_at": index,
            "scenario": "quick_spike",
            "policy": "p",
            "seed": 1,
            "fidelity": "processes",
            "cell": "c",
            "verdict": "pass",
            "is_invalid": False,
            "measures": {"reaction_seconds": value, "pod_minutes": 10.0, "lost": 0.0},
            "manifest": manifest,
        }
        found.append(HistoryRow(**(given | more)))
    return found


def noise(count: int, mean: float = 20.0) -> list[float]:
    """Return normal values with a standard deviation of 1 s."""
    return [float(value) for value in np.random.default_rng(7).normal(mean, 1, count)]


def test_a_lasting_shift_is_confirmed_after_four_runs() -> None:
    """Means, points and the first run after it are named."""
    found = cell_history(rows_of(noise(20) + noise(4, 40)), BOUNDS)

    (change,) = found.newest_changes
    assert (change.measure, change.status) == ("reaction_seconds", "confirmed")
    assert (change.last_run_before, change.first_run_after) == ("run-19", "run-20")
    assert (change.points_before, change.points_after) == (20, 4)
    assert "19.7 s -> 39.8 s" in change.text


def test_two_runs_are_a_suspicion() -> None:
    """The same shift after two runs, with a history that is long enough to say so."""
    found = cell_history(rows_of(noise(40) + noise(2, 40)), BOUNDS)

    (change,) = found.newest_changes
    assert (change.status, change.first_run_after, change.points_after) == (
        "suspected",
        "run-40",
        2,
    )


def test_one_run_is_nothing_yet() -> None:
    """An outlier is the gate's, and no change."""
    assert cell_history(rows_of([*noise(40), 60.0]), BOUNDS).newest_changes == ()


def test_noise_has_no_change() -> None:
    """Forty runs of one cell."""
    assert cell_history(rows_of(noise(40)), BOUNDS).newest_changes == ()


def test_a_change_within_the_bound_is_not_reported() -> None:
    """A shift of 1.5 s is real and does not matter."""
    shifted = [value / 5 for value in noise(20)] + [value / 5 + 1.5 for value in noise(10)]

    assert cell_history(rows_of(shifted), BOUNDS).newest_changes == ()


def test_an_improvement_is_a_change_too() -> None:
    """Lower is better."""
    (change,) = cell_history(rows_of(noise(20, 40) + noise(6)), BOUNDS).newest_changes

    assert change.first_run_after == "run-20"
    assert "better" in change.text


def test_two_changes_are_both_found() -> None:
    """Up at 15, down again at 30: the parts are searched again."""
    values = noise(15) + noise(15, 40) + noise(15)

    found = cell_history(rows_of(values), BOUNDS).newest_changes

    assert sorted(change.first_run_after for change in found) == ["run-15", "run-30"]


def test_a_new_version_begins_a_segment() -> None:
    """The shift has a known reason, so nothing is searched across it; the reason is named."""
    upgrade = {20: MANIFEST | {"versions.kafka": "4.4.0"}}

    found = cell_history(rows_of(noise(20) + noise(6, 40), manifests=upgrade), BOUNDS)

    assert [len(segment.run_ids) for segment in found.segments] == [20, 6]
    assert found.segments[1].began_because == ("versions.kafka: 4.3.1 against 4.4.0",)
    assert found.newest_changes == ()


def test_only_the_newest_segment_alerts() -> None:
    """A change before the upgrade stays in its segment."""
    upgrade = {26: MANIFEST | {"versions.kafka": "4.4.0"}}

    found = cell_history(rows_of(noise(20) + noise(12, 40), manifests=upgrade), BOUNDS)

    assert len(found.segments[0].changes) == 1
    assert found.newest_changes == ()


def test_missing_values_are_left_out() -> None:
    """A run without a reaction is not a reaction of zero."""
    values: list[float | None] = [*noise(20), None, *noise(4, 40)]

    (change,) = cell_history(rows_of(values), BOUNDS).newest_changes

    assert (change.points_before, change.points_after) == (20, 4)


def test_undetermined_and_invalid_runs_are_left_out_and_named() -> None:
    """They measured something else."""
    rows = rows_of(noise(10))
    rows[3] = rows[3].model_copy(update={"verdict": "undetermined"})
    rows[5] = rows[5].model_copy(update={"verdict": "fail", "is_invalid": True})
    rows[6] = rows[6].model_copy(update={"verdict": "fail"})

    found = cell_history(rows, BOUNDS)

    assert found.left_out == ("run-03", "run-05")
    assert len(found.segments[0].run_ids) == 8


def test_lost_messages_are_not_searched() -> None:
    """Each is a failure of its run, whatever the history."""
    rows = rows_of(noise(30))
    rows = [
        row.model_copy(update={"measures": {"lost": 0.0 if index < 20 else 50.0}})
        for index, row in enumerate(rows)
    ]

    assert cell_history(rows, (*BOUNDS, Bound("lost"))).newest_changes == ()


def test_a_cell_without_results_has_no_segment() -> None:
    """Nothing is searched, nothing breaks."""
    found = cell_history(rows_of(noise(2), verdict="undetermined"), BOUNDS)

    assert (found.segments, found.newest_changes, len(found.left_out)) == ((), (), 2)


def test_runs_are_grouped_by_cell() -> None:
    """A run whose folder does not show its cell is in none."""
    rows = [*rows_of([1, 2]), *rows_of([3], cell="d"), *rows_of([4], cell=None)]

    assert {cell: len(found) for cell, found in by_cell(rows).items()} == {"c": 2, "d": 1}


def test_a_manifest_is_flat_by_dotted_names() -> None:
    """Nested values keep their path; what is not known is left out."""
    assert flat_manifest({"machine": {"cores": 2, "processor": None}, "lock": "x"}) == {
        "machine.cores": "2",
        "lock": "x",
    }
