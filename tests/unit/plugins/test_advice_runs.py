"""The tasks of the Dag advise: what is refused before anything starts, and where a policy goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.core.scenario.conf_limits import FOLDERS_VARIABLE
from lagbench.errors import WrongInput
from lagbench_airflow.advice_runs import require_valid
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
        ("--budget", {"candidates": 1}),
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
