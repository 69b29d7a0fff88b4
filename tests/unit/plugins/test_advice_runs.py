"""The tasks of the Dag advise: what is refused before anything starts, and where a policy goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.advices import advice

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.scenario.conf_limits import FOLDERS_VARIABLE
from lagbench.errors import WrongInput
from lagbench.results.advice_files import AdviceFolder
from lagbench.results.executions import read_progress
from lagbench_airflow import advice_runs
from lagbench_airflow.advice_runs import keep_proof, record_proof, require_valid, write_policy
from lagbench_airflow.params import advice_params


def conf(**changed: Any) -> dict[str, Any]:
    """Return the form as it is, with other fields."""
    return {name: param.value for name, param in advice_params().items()} | changed


@pytest.fixture(autouse=True)
def allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that the deployer allows, with a policy in it."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv(FOLDERS_VARIABLE, str(tmp_path / "allowed"))
    folder = tmp_path / "allowed"
    folder.mkdir()
    (folder / "there.yaml").write_text("kind: ScaledObject\n")
    (folder / "out").symlink_to(tmp_path)
    return folder


def test_the_form_as_it_is_can_be_answered(allowed: Path) -> None:
    """So can one with a new file in an allowed folder, and one process that nobody watches."""
    require_valid(conf(), has_people=True)
    require_valid(conf(write_to=str(allowed / "new.yaml")), has_people=True)
    require_valid(conf(ask=False), has_people=False)


@pytest.mark.parametrize(
    ("field", "changed"),
    [
        ("slos", {"slos": "time_lag_p99_seconds=30"}),
        ("slo", {"slo": "time_lag_p99_seconds"}),
        ("slo", {"slo": "time_lag_p99_seconds=fast"}),
        ("--slo", {"slo": "lost=0"}),  # that no simulation judges
        ("--slo", {"slo": "\n"}),
        ("--candidates", {"candidates": 1}),
        ("scenario", {"scenario": "hallo"}),
        ("scenario", {"scenario": "/etc/passwd"}),
        ("policy", {"policy": "ALLOWED/out/policy.yaml"}),
        ("write_to", {"write_to": "ALLOWED/there.yaml"}),
        ("write_to", {"write_to": "ALLOWED/new.sh"}),
        ("write_to", {"write_to": "ALLOWED/none/new.yaml"}),
        ("write_to", {"write_to": "ALLOWED/out/new.yaml"}),  # its links are followed
        ("ask", {"has_people": False}),
        ("prove", {"has_people": False, "ask": False, "prove": True}),
    ],
)
def test_wrong_input_ends_the_run_at_once(
    allowed: Path, field: str, changed: dict[str, Any]
) -> None:
    """The message names the field."""
    given = {
        name: one.replace("ALLOWED", str(allowed)) if isinstance(one, str) else one
        for name, one in changed.items()
    }
    has_people = given.pop("has_people", True)

    with pytest.raises(WrongInput) as refused:
        require_valid(conf(**given), has_people=has_people)

    assert refused.value.field == field


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of an advice on quick_spike."""
    monkeypatch.setattr(advice_runs.target, "target_name", lambda: "embedded")
    files = AdviceFolder(tmp_path / "advice")
    files.path.mkdir()
    files.write(advice(), present=b"of the user", command="lagbench advise quick_spike")
    return str(files.path)


def test_a_proof_that_was_stopped_goes_on(folder: str) -> None:
    """Its order is recorded once; each run has a conf, and the places left over have none."""
    order = record_proof(folder, conf(), most=6)

    assert record_proof(folder, conf(), most=6) == order
    runs = read_progress(ExperimentFolder(Path(order["folder"]))).schedule.runs
    assert order["keys"] == [*(run.key for run in runs), "", ""]
    assert [bool(one) for one in order["confs"]] == [True] * 4 + [False] * 2
    first = order["confs"][0]
    assert first["overrides"]["slos.reaction_seconds"] == "20.0"
    assert Path(first["policy"]).is_file()
    kept = keep_proof(folder, conf())
    assert [one.verdict for one in AdviceFolder(Path(folder)).read().proof] == ["undetermined"] * 2
    assert "undetermined" in kept["summary"]


def test_a_policy_is_written_once_and_over_nothing(folder: str, allowed: Path) -> None:
    """Beside the advice, or as the new file that was asked for; again if the task is cleared."""
    beside = Path(write_policy(folder, conf()))
    assert beside.parent == Path(folder)
    assert "kind: ScaledObject" in beside.read_text()
    asked = conf(write_to=str(allowed / "new.yaml"))
    for _ in range(2):
        assert Path(write_policy(folder, asked)).read_text() == beside.read_text()
    with pytest.raises(WrongInput):
        write_policy(folder, conf(write_to=str(allowed / "there.yaml")))
