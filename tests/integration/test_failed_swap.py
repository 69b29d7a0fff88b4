"""A real Airflow takes a swap back that has failed: its trigger rule, not ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user

from lagbench.orchestrator.airflow_environment import airflow_command, airflow_environment
from lagbench.project import PROJECT_ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLE = (PROJECT_ROOT / "docs" / "examples" / "compare_policies.py").read_text()
STAND_INS = """
from pathlib import Path


def note_task(self, context):
    with Path({ran!r}).open("a") as file:
        file.write(self.task_id + "\\n")
    if self.task_id == "apply_1":
        raise AirflowFailException("the autoscaler has not taken it up")


ConsumerLagDrainedSensor.execute = lambda self, context: None
ApplyScalingPolicyOperator.execute = note_task
compare_policies()
"""


def test_a_swap_that_fails_is_taken_back(tmp_path: Path) -> None:
    """It may be in force: ``apply_1`` fails after its change, and ``restore`` runs."""
    give_database(tmp_path / "state")
    dags, ran = tmp_path / "dags", tmp_path / "ran"
    dags.mkdir()
    wired = EXAMPLE.removesuffix("compare_policies()\n")
    assert wired != EXAMPLE
    (dags / "swap.py").write_text(wired + STAND_INS.format(ran=str(ran)))
    with as_a_user():
        environment = airflow_environment(tmp_path / "state", {})
    environment["AIRFLOW__CORE__DAGS_FOLDER"] = str(dags)

    with (tmp_path / "log").open("wb") as log:
        subprocess.run(
            airflow_command("dags", "test", "compare_policies"),
            env=environment,
            stdout=log,
            stderr=log,
            timeout=540,
            check=False,
        )

    assert ran.read_text().split() == ["apply_1", "restore"], (tmp_path / "log").read_text()[-4000:]
