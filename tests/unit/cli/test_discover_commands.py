"""What there is to run, and a beginning of one's own, on the command."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Command

from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import list_policies, list_scenarios
from lagbench.errors import ExitCode


def test_each_scenario_is_listed_with_what_it_needs(lagbench: Command) -> None:
    """Its line, duration, partitions, cores and policy."""
    rows = {row["name"]: row for row in json.loads(lagbench("scenarios", "--json").out)}

    assert list(rows) == list_scenarios()
    hello = rows["hello"]
    assert hello["text"] == checked_cell("hello").scenario.description
    assert (hello["partitions"], hello["policy"]) == (4, "lag-hello")
    assert 60 < hello["seconds"] < 240
    assert rows["lab_full_spike"]["cores"] > hello["cores"] > 0


def test_a_wrong_file_hides_no_other(
    lagbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its problem stands in its row."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "broken.yaml").write_text("name: broken\n")
    monkeypatch.setenv("LAGBENCH_CATALOG", str(tmp_path))

    answer = lagbench("scenarios", "--json")

    assert answer.code == ExitCode.PASS
    [row] = json.loads(answer.out)
    assert "partitions is missing" in row["problem"]


def test_each_policy_is_listed_with_its_replicas_and_triggers(lagbench: Command) -> None:
    """A plain HPA has no trigger of KEDA's."""
    rows = {row["name"]: row for row in json.loads(lagbench("policies", "--json").out)}

    assert list(rows) == list_policies()
    assert all(row["text"] for row in rows.values())
    hello = rows["lag-hello"]
    assert (hello["min"], hello["max"], hello["triggers"]) == (2, 4, ["kafka"])
    assert hello["lag_threshold"] == 500
    assert rows["cpu-only"]["triggers"] == ["HPA"]


@pytest.mark.parametrize("option", [[], ["--own"]])
def test_a_new_scenario_can_be_planned_as_it_is(
    lagbench: Command, tmp_path: Path, option: list[str]
) -> None:
    """Its policy is the file beside it; the schema knows each of its fields."""
    folder = tmp_path / "mine"

    assert lagbench("new", str(folder), *option).code == ExitCode.PASS
    cell = checked_cell(folder / "scenario.yaml")

    assert cell.policy_name == "policy"
    schema = json.loads((folder / "scenario.schema.json").read_text())
    assert {"partitions", "profile", "consumer", "slos"} <= schema["properties"].keys()


def test_a_new_scenario_overwrites_nothing(lagbench: Command, tmp_path: Path) -> None:
    """The file that is in the way is named, and none is written."""
    (tmp_path / "policy.yaml").write_text("mine\n")

    answer = lagbench("new", str(tmp_path))

    assert answer.code == ExitCode.WRONG_INPUT
    assert "policy.yaml" in answer.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["policy.yaml"]
