"""The pages of the bench in Airflow's own API server behind a path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow
PREFIX = "/team/air"
NIGHT = "scheduled__2026-11-22T03:30:00+00:00"


def test_a_night_s_tab_leads_to_its_report_behind_a_prefix(tmp_path: Path) -> None:
    """Airflow serves all pages under the path of base_url, to users with the right to read runs."""
    folder = tmp_path / "runs" / "a-run"
    folder.mkdir(parents=True)
    (folder / "report.html").write_text("<p>the report</p>")
    (folder / "conf.json").write_text(json.dumps({"dag_run": f"rehearsal__{NIGHT}"}))
    passwords = tmp_path / "passwords.json"
    passwords.write_text(json.dumps({"admin": "secret"}))
    settings = {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__API__BASE_URL": f"https://example.org{PREFIX}",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT_ROOT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT_ROOT / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": "admin:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "LAGBENCH_RUNS_DIR": str(tmp_path / "runs"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    environment = {k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")}
    script = Path(__file__).with_name("behind_a_prefix.py")
    done = subprocess.run(
        [sys.executable, str(script), "daily_spike_rehearsal", NIGHT, PREFIX],
        env={**environment, **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["tab"].startswith(f"{PREFIX}/bench/report/daily_spike_rehearsal/")
    assert seen["stranger"] == 401
    assert seen["location"] == f"{PREFIX}/bench/runs/a-run/report.html"
    assert seen["report"] == "<p>the report</p>"
    assert seen["live"]["report"]
    assert seen["without_right"] == [403] * 9
    assert set(seen["pages"].values()) == {200}
    assert seen["links"] >= 5
    of_night = ["rehearsal__a_night", "rehearsal__a_night__cell_1", "rehearsal__a_night__try_2"]
    assert seen["cells"] == of_night
    assert seen["viewer"] == seen["pages"] | {"plan": 403}
    assert seen["accepts"] == [400, 403]  # the run is no rehearsal; a viewer may not
