"""What the live lines say of the cell comes from its run folder."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.unit.plugins.conftest import SCALED_OBJECT, SCENARIO

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.line import LiveSpike
from lagbench.errors import NotReady
from lagbench.programs.live.follow import read_cell


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return a run folder as plan_cell makes it."""
    made = RunFolder.create("a-run", tmp_path)
    made.write_text(made.scenario, yaml.safe_dump(SCENARIO))
    made.write_text(made.policy, yaml.safe_dump(SCALED_OBJECT))
    made.write_json(made.manifest, {"policy": "lag"})
    return made


def test_the_cell_has_load_limits_and_slos(folder: RunFolder) -> None:
    """Spikes and length come from the profile, bounds and threshold from the policy."""
    cell, _, limits = read_cell(folder)

    assert cell.spikes == [LiveSpike(start_seconds=5, end_seconds=15)]
    assert (cell.planned_seconds, limits.lag_threshold_records) == (20, 100)
    assert (cell.floor_replicas, cell.ceiling_replicas, cell.policy) == (2, 4, "lag")
    assert "flips" in [slo.name for slo in cell.slos]
    assert "drain_seconds" not in [slo.name for slo in cell.slos]


@pytest.mark.parametrize(
    ("prediction", "seconds"),
    [({"before": {"settled_seconds": 67.5}}, 67.5), ({"before": None}, None)],
)
def test_the_end_is_the_predicted_one(
    folder: RunFolder, prediction: dict[str, object], seconds: float | None
) -> None:
    """Without a prediction it is not known."""
    folder.write_json(folder.prediction, prediction)

    assert read_cell(folder)[0].settled_seconds == seconds


def test_another_folder_is_refused(folder: RunFolder) -> None:
    """The message names the folder."""
    folder.write_text(folder.scenario, "name: [")

    with pytest.raises(NotReady):
        read_cell(folder)


def test_a_cell_says_which_group_of_two_it_is_of(folder: RunFolder) -> None:
    """A run with one group has no such word."""
    assert read_cell(folder)[0].group is None

    second = folder.make_second()
    for path in ("scenario.yaml", "policy.yaml", "manifest.json"):
        second.write_text(path, folder.read_text(path))

    assert [read_cell(group)[0].group for group in folder.groups] == ["first", "second"]
