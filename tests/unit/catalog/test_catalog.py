"""Scenarios and policies from files: what is read, and what is rejected before anything starts."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.catalog import catalog_files
from lagbench.catalog.catalog import (
    checked_cell,
    load_scenario,
    parse_settings,
    policy_file,
)
from lagbench.catalog.catalog_files import (
    from_any_folder,
    list_policies,
    list_scenarios,
    path_from_home,
)
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import TraceProfile
from lagbench.core.scenario.scenario import MAX_SEED
from lagbench.errors import ExitCode, WrongInput
from lagbench.project import PROJECT_ROOT

MINIMAL = {
    "name": "mine",
    "description": "A scenario of a test",
    "partitions": 4,
    "profile": {"kind": "steady", "rate_per_second": 10, "duration_seconds": 5},
    "policy": "lag-quick",
}


def scenario_file(folder: Path, **changes: Any) -> Path:
    """Write the minimal scenario with changes and return its path."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, **changes}), encoding="utf-8")
    return path


def refusal(path: Path | str, **overrides: str) -> WrongInput:
    """Return the refusal of a scenario."""
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    with pytest.raises(WrongInput) as caught:
        load_scenario(path, dotted)
    assert caught.value.exit_code == ExitCode.WRONG_INPUT == 2
    return caught.value


@pytest.mark.parametrize("name", list_scenarios())
def test_every_scenario_fits_its_policy(name: str) -> None:
    """Each committed scenario loads, is named like its file, and fits its policy."""
    cell = checked_cell(name)

    assert cell.scenario.name == name
    assert cell.scenario.message_bytes == 256
    assert policy_file(cell.policy_name).stem == cell.policy_name
    assert offered_load(cell.scenario.profile).total > 0


@pytest.mark.parametrize("folder", ["include/catalog/scenarios", "k8s/policies"])
def test_every_file_describes_its_purpose(folder: str) -> None:
    """Each file of the catalog begins with a comment that has a part 'Demonstrates'."""
    files = sorted((PROJECT_ROOT / folder).rglob("*.yaml"))

    assert files
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("# "), path
        assert "\n# Demonstrates\n" in text, path


def test_an_effective_scenario_loads_without_its_trace_file(tmp_path: Path) -> None:
    """Its points come from the CSV beside it; the run folder's text is enough to load it again."""
    cell = checked_cell(
        "trace_example", overrides={"seed": "5", "consumer.graceful_shutdown": "off"}
    )
    copy = tmp_path / "scenario.yaml"
    copy.write_text(cell.scenario_text, encoding="utf-8")

    profile = cell.scenario.profile
    assert isinstance(profile, TraceProfile)
    assert (profile.points[0].rate_per_second, profile.points[-1].second) == (500, 180)
    assert load_scenario(copy) == cell.scenario


def test_settings_replace_fields_with_yaml_values() -> None:
    """Dotted settings reach nested fields; on and off stay words."""
    settings = parse_settings(
        [
            "profile.spike_mult=5",
            "consumer.balancer=range",
            "consumer.graceful_shutdown=off",
            "slos.drain_seconds=1e2",
            "slos.flips=null",
            "allow_overscale=true",
        ]
    )

    scenario = load_scenario("quick_spike", settings)

    assert scenario.profile.kind == "step"
    assert scenario.profile.spike_mult == 5
    assert (scenario.consumer.balancer, scenario.consumer.graceful_shutdown) == ("range", False)
    assert (scenario.slos.drain_seconds, scenario.slos.flips) == (100, None)
    assert scenario.allow_overscale


@pytest.mark.parametrize("setting", ["seed", "=3", "profile..rate=3", ""])
def test_a_setting_without_key_or_value_is_refused(setting: str) -> None:
    """A setting is key=value."""
    with pytest.raises(WrongInput, match="key=value"):
        parse_settings([setting])


@pytest.mark.parametrize(
    ("changes", "field", "value", "allowed"),
    [
        ({"partitons": 3}, "partitons", 3, "did you mean partitions?"),
        ({"slos": {"drain": 5}}, "slos.drain", 5, "did you mean drain_seconds?"),
        ({"spike_mult": 5}, "spike_mult", 5, "did you mean profile.spike_mult?"),
        ({"consumer": {"proces_ms": 1}}, "consumer.proces_ms", 1, "did you mean process_ms?"),
        (
            {"profile": {**MINIMAL["profile"], "rate_per_second": -1}},  # type: ignore[dict-item]
            "profile.rate_per_second",
            -1,
            "greater than 0",
        ),
        ({"profile": {}}, "profile", {}, "steady, step, bursty, trace"),
        ({"profile": None}, "profile", None, "steady, step, bursty, trace"),
        ({"profile": {"kind": "spike"}}, "profile.kind", "spike", "steady, step, bursty, trace"),
        ({"partitions": 0}, "partitions", 0, "greater than or equal to 1"),
        ({"consumer": {"balancer": "sticky"}}, "consumer.balancer", "sticky", "'range'"),
        ({"seed": -1}, "seed", -1, "greater than or equal to 0"),
        ({"seed": MAX_SEED + 1}, "seed", MAX_SEED + 1, str(MAX_SEED)),
        ({"keys": 3}, "keys", 3, "a mapping of fields"),
        (
            {"actions": [{"kind": "kill_pod", "at_seconds": "1"}]},
            "actions.0.at_seconds",
            "1",
            "without quotes",
        ),
        ({"description": None}, "description", None, "valid string"),
        (
            {"profile": {"kind": "steady", "rate_per_second": 0.01, "duration_seconds": 1}},
            "profile",
            "steady",
            "at least one event",
        ),
    ],
)
def test_a_wrong_field_is_named(
    tmp_path: Path, changes: dict[str, Any], field: str, value: Any, allowed: str
) -> None:
    """The message names the file, the dotted field, its value and what is allowed."""
    path = scenario_file(tmp_path, **changes)

    found = refusal(path)

    assert (found.where, found.field, found.value) == (str(path), field, value)
    assert allowed in str(found)


def test_the_scenario_of_the_readme_loads_as_printed(tmp_path: Path) -> None:
    """Whoever types it off gets a plan."""
    readme = (PROJECT_ROOT / "README.md").read_text()
    (tmp_path / "mine.yaml").write_text(readme.partition("```yaml\n")[2].partition("```")[0])

    assert load_scenario(tmp_path / "mine.yaml").name == "mine"


def test_a_policy_as_a_scenario_and_a_near_file_are_said(tmp_path: Path) -> None:
    """One sentence each, in place of a problem for each field."""
    (tmp_path / "orders-so.yaml").write_text("apiVersion: keda.sh/v1alpha1\nkind: ScaledObject\n")
    scenario_file(tmp_path).rename(tmp_path / "scenario.yaml")

    assert "this is a ScaledObject" in str(refusal(tmp_path / "orders-so.yaml"))
    assert "did you mean" in str(refusal(tmp_path / "order-so.yaml"))
    assert "is a folder; did you mean" in str(refusal(tmp_path))


def test_the_copy_in_a_run_folder_keeps_its_policy_name(tmp_path: Path) -> None:
    """To repeat a run does not rename its policy."""
    copy = tmp_path / "policy.yaml"
    copy.write_text(policy_file("lag-default").read_text())
    names = [checked_cell("quick_spike", policy=str(copy)).policy_name]
    (tmp_path / "manifest.json").write_text('{"policy": "orders"}')

    assert [*names, checked_cell("quick_spike", policy=str(copy)).policy_name] == [
        "policy",
        "orders",
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partitions", "true"),
        ("partitions", '"4"'),
        ("partitions", "١٢"),
        ("partitions", "12.5"),
        ("partitions", "9" * 400),
        ("partitions", "x" * 100_000),
        ("profile.rate_per_second", '"10"'),
        ("profile.rate_per_second", ".nan"),
        ("profile.rate_per_second", ".inf"),
        ("profile.rate_per_second", "1e400"),
        ("profile.rate_per_second", "-1"),
        ("profile.rate_per_second", "true"),
        ("consumer.process_ms", '"5"'),
        ("consumer.shutdown_timeout_seconds", "true"),
        ("consumer.graceful_shutdown", "1"),
        ("allow_overscale", "0.0"),
    ],
)
def test_what_is_no_number_or_no_truth_value_is_refused(
    tmp_path: Path, field: str, value: str
) -> None:
    """By the setting that brought it in; 12.0 is whole, and ``off`` is a truth value."""
    path = scenario_file(tmp_path)
    found = load_scenario(path, {"partitions": "12.0", "consumer.graceful_shutdown": "off"})
    assert (found.partitions, found.consumer.graceful_shutdown) == (12, False)

    refused = refusal(path, **{field: value})

    assert refused.field == field
    assert refused.where.startswith(f"--set {field}=")


@pytest.mark.parametrize("name", ["a" * 400, "**", "a[", "a\0", ""])
def test_a_policy_may_be_called_anything_and_is_not_there(tmp_path: Path, name: str) -> None:
    """Neither a path that is too long nor a pattern of files."""
    with pytest.raises(WrongInput):
        checked_cell(scenario_file(tmp_path), policy=name)


def test_all_problems_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    """Each with its line; a misspelt field and the missing one that it means are one problem."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "name: mine\npartitons: 3\n"
        "profile: {kind: steady, rate_per_second: 1, duration_seconds: 9}\n"
        "consumer:\n  proces_ms: 1\n"
    )

    _, *problems = str(refusal(path, seed="x")).splitlines()

    assert [problem.split(" is ")[0].split(" = ")[0].strip() for problem in problems] == [
        *("--set seed", "description", "policy"),
        *("line 2: partitons", "line 5: consumer.proces_ms"),
    ]
    assert "did you mean partitions, which is missing?" in problems[3]


@pytest.mark.parametrize(
    ("text", "field", "allowed"),
    [
        ("name: mine\n  bad: [\n", "line 2", "valid YAML"),
        ("name: mine\npartitions: 3\npartitions: 4\n", "line 3", "given twice"),
        ("- a\n- b\n", "document", "a mapping"),
        ("", "document", "a mapping"),
        ("name: !!python/object:os.system x\n", "line 1", "valid YAML"),
    ],
)
def test_unreadable_yaml_names_the_line(
    tmp_path: Path, text: str, field: str, allowed: str
) -> None:
    """A file that is no mapping in YAML is rejected with its line."""
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")

    found = refusal(path)

    assert (found.where, found.field) == (str(path), field)
    assert allowed in found.allowed


def test_an_unknown_name_is_answered_with_a_near_one() -> None:
    """A mistyped scenario or policy gets a suggestion."""
    assert " quick_spike? " in refusal("quick-spike").allowed
    with pytest.raises(WrongInput, match=r" lag-quick\? "):
        checked_cell("quick_spike", policy="lag-quik")


def test_a_missing_or_wrong_trace_is_named(tmp_path: Path) -> None:
    """The trace file is named when it is absent, and its line when it is wrong."""
    path = scenario_file(tmp_path, profile={"kind": "trace", "file": "t.csv"})

    absent = refusal(path)
    (tmp_path / "t.csv").write_text("second,rate\n0,1\n0,2\n", encoding="utf-8")
    wrong = refusal(path)

    assert absent.where == wrong.where == str(tmp_path / "t.csv")
    assert wrong.field == "line 3"


def test_a_trace_that_no_variable_of_the_producer_holds_is_refused(tmp_path: Path) -> None:
    """A day in steps of 10 s fits; many digits make a row longer."""
    profile = {"kind": "trace", "file": "t.csv"}
    file, path = tmp_path / "t.csv", scenario_file(tmp_path, profile=profile)
    for step, rate in ((10, "300.5"), (10 + 1 / 3, "300.12345678912345")):
        rows = "".join(f"{step * row},{rate}\n" for row in range(int(86_400 / step)))
        file.write_text(f"second,rate\n{rows}")
        if step == 10:
            assert len(getattr(load_scenario(path).profile, "points", ())) == 8640

    assert "fewer rows or digits" in refusal(path).allowed


def test_other_folders_can_hold_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LAGBENCH_CATALOG and LAGBENCH_POLICIES say where the files are."""
    (tmp_path / "scenarios").mkdir()
    scenario_file(tmp_path / "scenarios")
    monkeypatch.setenv("LAGBENCH_CATALOG", str(tmp_path))
    monkeypatch.setenv("LAGBENCH_POLICIES", str(tmp_path / "none"))

    assert list_scenarios() == ["mine"]
    assert list_policies() == []
    assert load_scenario("mine").partitions == 4


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("quick_spike", "quick_spike"),
        ("mine.yaml", "{here}/mine.yaml"),
        ("my/policy", "{here}/my/policy"),
        ("/etc/mine.yml", "/etc/mine.yml"),
    ],
)
def test_a_path_leads_there_from_any_folder(
    given: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow's server may run in another folder than the command that checked the file."""
    monkeypatch.chdir(tmp_path)

    assert from_any_folder(given) == meant.format(here=tmp_path)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("quick_spike", "quick_spike"),
        ("{home}/mine/a.yaml", "mine/a.yaml"),
        ("/home/somebody/a.yaml", "…/a.yaml"),
    ],
)
def test_a_manifest_names_a_file_from_home_and_no_folder_elsewhere(
    given: str, kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of the report repeats the first; the second says who wrote it."""
    monkeypatch.setattr(catalog_files, "HOME", tmp_path)

    assert path_from_home(given.format(home=tmp_path)) == kept
