"""Locate the bench's state folder."""

from __future__ import annotations

import os
from pathlib import Path

from lagbench.project import PROJECT_ROOT

STATE_VARIABLE = "LAGBENCH_STATE_DIR"


def state_dir() -> Path:
    """Return the bench's state folder: LAGBENCH_STATE_DIR, else .lagbench in the project."""
    named = os.environ.get(STATE_VARIABLE)
    return Path(named).absolute() if named else PROJECT_ROOT / ".lagbench"
