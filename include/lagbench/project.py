"""Locate the checkout, which has Dags, manifests and catalog, and the bench's state folder."""

from __future__ import annotations

import os
from pathlib import Path


def project_root() -> Path:
    """Return the nearest folder above this package with a pyproject.toml, else the current one."""
    here = Path(__file__).resolve()
    return next((f for f in here.parents if (f / "pyproject.toml").is_file()), Path.cwd())


PROJECT_ROOT = project_root()

STATE_VARIABLE = "LAGBENCH_STATE_DIR"


def state_dir() -> Path:
    """Return the bench's state folder: LAGBENCH_STATE_DIR, else .lagbench in the project."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named).absolute() if named else PROJECT_ROOT / ".lagbench"
