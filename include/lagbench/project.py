"""Locate the checkout, which has Dags, manifests and catalog, and the bench's state folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lagbench.errors import NotReady


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


def make_state_dir(folder: Path) -> None:
    """Make the state folder, and keep other users out: logs, database and topics are in it.

    :raises NotReady: it belongs to another user, or to all of them.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    if not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if found.st_uid != os.getuid() or found.st_mode & stat.S_ISVTX:
        told = f"the state folder {folder} is also of other users"
        raise NotReady(f"{told}; set {STATE_VARIABLE} to a folder of your own")
    folder.chmod(0o700)
