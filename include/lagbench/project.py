"""Locate the checkout, which has Dags, manifests and catalog, and the bench's state folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lagbench.errors import NotReady, WrongInput


def _checkout() -> Path | None:
    here = Path(__file__).resolve()
    if (here.parent / "_project").is_dir():  # a wheel, perhaps below the user's own project
        return None
    return next((f for f in here.parents if (f / "pyproject.toml").is_file()), None)


PROJECT_ROOT = _checkout() or Path(__file__).resolve().parent / "_project"
"""The checkout, or what a wheel has of it: Dags, plugins, jobs, manifests and catalog."""

HOME = _checkout() or Path.cwd()
"""Where runs and state are by default: the checkout, or the current folder."""

STATE_VARIABLE = "LAGBENCH_STATE_DIR"


def state_dir() -> Path:
    """Return the bench's state folder: LAGBENCH_STATE_DIR, else .lagbench in HOME."""
    return named_folder(STATE_VARIABLE, HOME / ".lagbench").absolute()


def named_folder(variable: str, default: Path) -> Path:
    """Return the folder that an environment variable names; it need not be there yet."""
    named = os.environ.get(variable)
    if not named:
        return default
    folder = Path(named)
    try:
        is_folder = next(
            one for one in (folder, *folder.absolute().parents) if one.exists()
        ).is_dir()
    except OSError:  # its name is too long
        is_folder = False
    if not is_folder:
        raise WrongInput(where="environment", field=variable, value=named, allowed="a folder")
    return folder


def make_state_dir(folder: Path) -> None:
    """Make the state folder, and keep other users out: logs, database and topics are in it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = folder.stat()
    is_own = found.st_uid == os.geteuid()
    if is_own and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        return
    if not is_own or found.st_mode & stat.S_ISVTX:
        told = f"the state folder {folder} is also of other users"
        raise NotReady(f"{told}; set {STATE_VARIABLE} to a folder of your own")
    folder.chmod(0o700)
