"""Becomes an Airflow API server of two workers; what only its Airflow knows, it writes to a file.

A process of its own: Airflow reads ``[api] base_url`` once, when it is imported.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from airflow.api_fastapi.app import create_auth_manager
from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
from airflow.models.dagrun import DagRun
from airflow.utils.db import initdb
from airflow.utils.session import create_session

NIGHT_OF_CELLS = "a_night"
OF_NIGHT = f"rehearsal__{NIGHT_OF_CELLS}"
CELLS_AND_OTHERS = (
    ("scenario_run", OF_NIGHT),
    ("scenario_run", f"{OF_NIGHT}__cell_1"),
    ("scenario_run", f"{OF_NIGHT}__try_2"),
    ("scenario_run", f"{OF_NIGHT}2"),
    ("scenario_run", OF_NIGHT.replace("a_night", "aXnight__cell_1")),
    ("own", OF_NIGHT),
)


def main(told: Path, port: str) -> None:
    """Fill the database, tell the tab's address and tokens of roles, and serve."""
    from lagbench_plugin import LagbenchPlugin

    initdb()
    with create_session() as session:
        session.add_all(
            DagRun(dag_id=dag, run_id=run, run_type="manual", state="failed", conf={})
            for dag, run in CELLS_AND_OTHERS
        )
    manager, facts = create_auth_manager(), {}
    for name, role in {"viewer": "VIEWER", "nobody": None}.items():
        user: Any = SimpleAuthManagerUser(username=name, role=role)
        facts[name] = manager.generate_jwt(user)
    facts["tab"] = str(LagbenchPlugin.external_views[0]["href"])
    part = told.with_suffix(".part")
    part.write_text(json.dumps(facts))
    part.replace(told)
    options = ("api-server", "--host", "127.0.0.1", "--port", port, "--workers", "2")
    os.execv(sys.executable, [sys.executable, "-m", "airflow", *options])


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
