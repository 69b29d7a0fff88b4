"""The catalog's experiments, and wrong ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.experiments import BASE

from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import catalog_folder, list_experiments
from lagbench.catalog.experiments import check_experiment, load_experiment
from lagbench.core.experiment.experiment import draw_schedule
from lagbench.core.experiment.experiment_result import decidability_note
from lagbench.core.simulation.prediction import expected_run_seconds, predict
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT


def test_the_folder_holds_experiments_only() -> None:
    """Files of findings are beside their findings."""
    files = (catalog_folder() / "experiments").rglob("*")
    names = sorted(path.name for path in files if path.is_file())

    assert names == [f"{name}.yaml" for name in list_experiments()]
    assert {"aa_quick_spike", "rebalance_dip"} <= set(list_experiments())


@pytest.mark.parametrize("name", list_experiments())
def test_every_cell_can_run(name: str) -> None:
    """Each cell's scenario and policy are valid, with every number of pairs that is allowed."""
    experiment = load_experiment(name)
    cells = check_experiment(experiment)

    assert set(cells) == {cell.name for cell in experiment.cells}
    for pairs in (1, 2, 6) if experiment.kind == "identity" else (6, 8, 12):
        assert draw_schedule(experiment, pairs=pairs).pairs == pairs


@pytest.mark.parametrize("name", list_experiments())
def test_the_hours_are_those_of_the_runs(name: str) -> None:
    """The file's hours are within a fifth of what the simulator expects of all runs together."""
    experiment = load_experiment(name)
    seconds = 0.0
    lengths: dict[tuple[str, str | None], float] = {}
    for run in draw_schedule(experiment).runs:
        key = (run.cell, run.policy(experiment))
        if key not in lengths:  # the seed moves the drain, not the scale-down that ends the run
            cell = checked_cell(
                experiment.scenario,
                policy=run.policy(experiment),
                overrides=run.overrides(experiment),
            )
            lengths[key] = expected_run_seconds(
                cell.scenario,
                predict(cell.scenario, cell.policy),
                started_replicas=cell.policy.limits.started_replicas,
            )
        seconds += lengths[key]

    assert experiment.hours == pytest.approx(seconds / 3600, rel=0.2)


@pytest.mark.parametrize("name", list_experiments())
def test_every_experiment_has_its_rows(name: str) -> None:
    """The reference lists it, and the findings say what it shows, or that it has not run yet."""
    for page in ("docs/reference.md", "docs/findings/README.md"):
        text = (PROJECT_ROOT / page).read_text(encoding="utf-8")
        assert re.search(rf"`(lagbench experiment )?{name}`(, `\w+`)* \|", text), page


@pytest.mark.parametrize("name", list_experiments())
def test_the_pairs_can_decide_what_is_compared(name: str) -> None:
    """No experiment compares more measures than its pairs can show to differ."""
    experiment = load_experiment(name)

    assert decidability_note(experiment, experiment.pairs) is None


def test_the_dip_is_compared_with_enough_pairs() -> None:
    """With six pairs only one measure can be shown to differ, and the file compares one."""
    experiment = load_experiment("rebalance_dip")

    assert experiment.pairs == 6
    assert list(experiment.bounds) == ["rebalance_dip_percent"]
    assert [cell.expects for cell in experiment.cells] == ["pass", "fail"]


def test_the_noise_floor_is_repeated_each_week() -> None:
    """Its cells are the same, and it has a schedule."""
    experiment = load_experiment("aa_quick_spike")

    assert experiment.is_noise_floor
    assert experiment.schedule == "0 5 * * 0"


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"pairs": 5}, "pairs", 5),
        ({"paris": 6}, "paris", 6),
        ({"question": None}, "question", None),
        ({"kind": "identity", "cells": [{"name": "a"}]}, "cells", [{"name": "a"}]),
        ({"kind": "identity", "pairs": 0}, "pairs", 0),
        ({"kind": "identity", "bounds": {"lost": {}}}, "bounds", {"lost": {}}),
        (
            {"cells": [{"name": "a", "shows": {"lost": {"over": 0}}}, {"name": "b"}]},
            "cells.0.shows.lost.over",
            0,
        ),
        ({"cells": [{"name": "a"}]}, "cells", [{"name": "a"}]),
        ({"seeds": [1, 2]}, "seeds", [1, 2]),
        ({"cells": [{"name": "a"}, {"name": "b", "polcy": "p"}]}, "cells.1.polcy", "p"),
    ],
)
def test_a_wrong_file_is_refused_by_its_field(
    tmp_path: Path, changed: dict[str, Any], field: str, value: object
) -> None:
    """The error has file, field and value."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changed}))

    with pytest.raises(WrongInput) as found:
        load_experiment(str(file))

    error = found.value
    assert (error.where, error.field, error.value) == (str(file), field, value)


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"bounds": {"reaction_second": {}}}, "bounds", "reaction_second"),
        ({"cells": [{"name": "a", "shows": {"lots": 0}}, {"name": "b"}]}, "shows", "lots"),
        ({"overrides": {"seed": 3}}, "overrides", "seed"),
        ({"overrides": {"hpa_sync_at_seconds": 3}}, "overrides", "hpa_sync_at_seconds"),
        ({"overrides": {"consumer.balancr": "range"}}, "consumer.balancr", "range"),
        ({"scenario": "quick_spik"}, "scenario", "quick_spik"),
        ({"cells": [{"name": "a"}, {"name": "b", "policy": "nope"}]}, "policy", "nope"),
    ],
)
def test_a_cell_that_cannot_run_is_rejected(
    tmp_path: Path, changed: dict[str, Any], field: str, value: str
) -> None:
    """Before anything starts."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changed}))

    with pytest.raises(WrongInput) as found:
        check_experiment(load_experiment(file))

    assert (found.value.field, found.value.value) == (field, value)


def test_a_file_of_the_catalog_has_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two Dags or two folders could have one name; a file elsewhere may differ."""
    (tmp_path / "experiments").mkdir()
    file = tmp_path / "experiments" / "other.yaml"
    file.write_text(yaml.safe_dump(BASE))
    monkeypatch.setenv("LAGBENCH_CATALOG", str(tmp_path))

    with pytest.raises(WrongInput) as found:
        load_experiment("other")

    assert found.value.field == "name"
    with pytest.raises(WrongInput, match="one of: other"):
        load_experiment("absent")
    assert load_experiment(file).name == "tiny"


@pytest.mark.parametrize("name", list_experiments())
def test_each_experiment_of_the_lab_has_its_page_and_row(name: str) -> None:
    """Each one has run to its end, and its result lies beside the row's page."""
    findings = PROJECT_ROOT / "docs/findings"
    rows = [line for line in (findings / "README.md").read_text().splitlines() if line[:1] == "|"]

    assert (findings / name / "result.md").is_file()
    assert any(f"]({name}/" in row and f"experiment {name}`" in row for row in rows)
