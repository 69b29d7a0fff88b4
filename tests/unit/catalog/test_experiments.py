"""The catalog's experiments, and wrong ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.fakes.experiments import BASE
from tests.unit.catalog.test_catalog import scenario_file

from lagbench.catalog.catalog import checked_cell, load_policy
from lagbench.catalog.catalog_files import (
    POLICIES_VARIABLE,
    list_experiments,
    list_policies,
    policies_folder,
)
from lagbench.catalog.experiments import check_experiment, load_experiment
from lagbench.core.compare.experiment import draw_schedule
from lagbench.core.compare.experiment_result import decidability_note
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.core.simulation.prediction import expected_run_seconds, predict
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT


@pytest.mark.parametrize("name", list_experiments())
def test_every_cell_can_run(name: str) -> None:
    """Each cell is valid, and no more measures are compared than its pairs can show to differ."""
    experiment = load_experiment(name)
    cells = check_experiment(experiment)

    assert set(cells) == {cell.name for cell in experiment.cells}
    for pairs in (1, 2, 6) if experiment.kind == "identity" else (6, 8, 12):
        assert draw_schedule(experiment, pairs=pairs).pairs == pairs
    assert decidability_note(experiment, experiment.pairs) is None
    assert experiment.is_noise_floor == (experiment.schedule is not None)


@pytest.mark.parametrize("name", list_experiments())
def test_the_hours_are_those_of_the_runs(name: str) -> None:
    """The file's hours are near what the simulator expects of all runs together.

    They were often run beside other work, and then took up to two fifths longer.
    """
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

    assert experiment.hours == pytest.approx(seconds / 3600, rel=0.42)


@pytest.mark.parametrize("name", list_experiments())
def test_every_experiment_has_its_rows_and_its_result(name: str) -> None:
    """The reference lists it, the findings say what it shows, and its result is beside its page.

    One that has not run is named there instead.
    """
    reference, text = (
        (PROJECT_ROOT / page).read_text(encoding="utf-8")
        for page in ("docs/reference.md", "docs/findings/README.md")
    )
    row = rf"`(lagbench experiment )?{name}`(, `\w+`)* \|"
    assert re.search(row, reference)
    folder = PROJECT_ROOT / "docs/findings" / name
    if not (folder / "result.md").is_file():
        assert f"`{name}`" in text.partition("## Not run")[2].partition("\n## ")[0]
        return
    assert re.search(row, text)
    rows = [line for line in text.splitlines() if line[:1] == "|"]
    assert any(f"]({name}/" in row and f"experiment {name}`" in row for row in rows)


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
        ({"bounds": {"reaction_second": {}}}, "bounds", "reaction_second"),
        ({"cells": [{"name": "a", "shows": {"lots": 0}}, {"name": "b"}]}, "shows", "lots"),
        ({"overrides": {"seed": 3}}, "overrides", "seed"),
        ({"overrides": {"hpa_sync_at_seconds": 3}}, "overrides", "hpa_sync_at_seconds"),
        ({"overrides": {"consumer.balancr": "range"}}, "consumer.balancr", "range"),
        ({"scenario": "quick_spik"}, "scenario", "quick_spik"),
        ({"cells": [{"name": "a"}, {"name": "b", "policy": "nope"}]}, "policy", "nope"),
    ],
)
def test_a_wrong_file_is_refused_by_its_field(
    tmp_path: Path, changed: dict[str, Any], field: str, value: object
) -> None:
    """Before anything starts, also where only a cell shows what is wrong."""
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump({**BASE, **changed}))

    with pytest.raises(WrongInput) as found:
        check_experiment(load_experiment(str(file)))

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


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide policies of which ``cron-placed`` has a window in the stream."""
    known = policies_folder()
    for name in ("lag-quick", "cron-prewarm-plus-lag"):
        manifest = yaml.safe_load((known / f"{name}.yaml").read_text(encoding="utf-8"))
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: "60-180"}
    (tmp_path / "cron-placed.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    monkeypatch.setenv(POLICIES_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_swap_to_a_policy_with_cron_windows_is_rejected(placed: Path, tmp_path: Path) -> None:
    """Only the windows of the first policy are placed in the stream."""

    def scenario(policy: str) -> Path:
        swap = {"kind": "swap_policy", "at_seconds": 1, "policy": policy}
        return scenario_file(tmp_path, partitions=12, actions=[swap])

    assert (
        checked_cell(scenario("cron-prewarm-plus-lag")).swapped[0].name == "cron-prewarm-plus-lag"
    )
    with pytest.raises(WrongInput) as caught:
        checked_cell(scenario("cron-placed"))
    assert (caught.value.field, caught.value.value) == ("actions.0.policy", "cron-placed")


def test_windows_of_both_groups_need_one_start(placed: Path, tmp_path: Path) -> None:
    """Edges half a minute apart cannot both be on whole minutes; whole minutes apart they can."""
    path = placed / "cron-placed.yaml"
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, window in (("late", "90-210"), ("later", "120-240")):
        manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: window}
        (placed / f"cron-{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    def scenario(policy: str) -> Path:
        return scenario_file(tmp_path, partitions=12, second_group={"policy": policy})

    later = checked_cell(scenario("cron-later"), policy="cron-placed")
    assert later.second is not None
    assert later.second.policy_name == "cron-later"
    with pytest.raises(WrongInput, match="whole minutes") as caught:
        checked_cell(scenario("cron-late"), policy="cron-placed")
    assert caught.value.value == "90-210"


ALL_POLICIES = sorted(policies_folder().rglob("*.yaml"))


def test_no_two_policies_are_the_same() -> None:
    """Each file asks for something that no other one asks for."""
    policies = [load_policy(path) for path in ALL_POLICIES]
    specs = [f"{policy.manifest['spec']} {policy.limits.flags}" for policy in policies]

    assert len(set(specs)) == len(specs)


def test_policies_of_the_experiments_are_found_and_not_listed() -> None:
    """They are none for production: a form and an error message do not offer them."""
    names = [path.stem for path in ALL_POLICIES]

    assert len(set(names)) == len(names)
    assert set(names) - set(list_policies()) == {n for n in names if n.startswith("lab-")}
    assert load_policy("lab-lag").limits.ceiling_replicas == 12


@pytest.mark.parametrize("path", ALL_POLICIES, ids=lambda path: path.stem)
def test_every_policy_is_a_complete_manifest_of_one_name(path: Path) -> None:
    """Each policy passes KEDA's checks and all share name and namespace."""
    manifest = load_policy(path).manifest

    metadata = manifest["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("consumer", "lagbench")
    assert manifest["spec"]["scaleTargetRef"]["name"] == "consumer"
