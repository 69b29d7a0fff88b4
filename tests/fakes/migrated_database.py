"""Airflow's database, migrated once in a session of tests and copied into each home."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path

from lagbench.orchestrator.airflow_environment import airflow_home, prepare_database
from tests.fakes.user_environment import as_a_user


@cache
def _template() -> tempfile.TemporaryDirectory[str]:
    folder = tempfile.TemporaryDirectory(prefix="lagbench-test-database-")
    with as_a_user():
        prepare_database(Path(folder.name))
    return folder


def give_database(state_dir: Path) -> None:
    """Put a migrated database without history into ``state_dir``; migrating takes 18 s."""
    home = airflow_home(state_dir)
    home.mkdir(parents=True, exist_ok=True)
    template = airflow_home(Path(_template().name))
    for source in (*template.glob("airflow.db*"), template / "migrated"):
        shutil.copy(source, home)
