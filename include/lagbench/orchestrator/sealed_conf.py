"""Hand a cell from the command line to the Dag as its caller's own, which no other conf is.

A file in a folder of the state folder has the conf; the Dag run's own conf has only its name. To
write there takes the rights of the bench's user. The values are not in ``ps``, nor in Airflow's
database. A file is read once, and only by the Dag run that it is for: users who may look at that
run see the name.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lagbench.catalog.catalog_files import file_name
from lagbench.errors import WrongInput

SEALED = "sealed"
"""The key of the conf, and the name of the folder."""
_NAME = re.compile(r"[0-9a-f]{32}")
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_OPEN = ("run_id", "keep_bench")


def seal(state_dir: Path, conf: Mapping[str, Any], *, dag_run: str | None) -> dict[str, Any]:
    """Write what a conf names, and return the conf for Airflow: the name of that file.

    :param dag_run: the id of the Dag run in a server; None: it is in a process of the command line.
    """
    folder = state_dir / SEALED
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = secrets.token_hex(16)
    descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({"conf": dict(conf), "dag_run": dag_run}, file)
    told = {key: conf[key] for key in _OPEN if key in conf}
    return {**told, "scenario": file_name(str(conf["scenario"])), SEALED: name}


def break_seal(state_dir: Path, name: str) -> None:
    """Delete what no Dag run has read."""
    (state_dir / SEALED / name).unlink(missing_ok=True)


def read_sealed(state_dir: Path, name: object, *, dag_run: str) -> dict[str, Any]:
    """Return what the command line has sealed under this name for this Dag run, and delete it."""
    folder = state_dir / SEALED
    try:
        if not _NAME.fullmatch(str(name)):
            raise FileNotFoundError
        _require_private(os.lstat(folder), stat.S_ISDIR)
        descriptor = os.open(folder / str(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, encoding="utf-8") as file:
            _require_private(os.fstat(descriptor), stat.S_ISREG)
            found = json.load(file)
        if found["dag_run"] not in (None, dag_run):
            raise PermissionError
    except OSError as error:
        allowed = "the name of a cell that the command line has sealed in this state folder, once"
        raise WrongInput(where="conf", field=SEALED, value=name, allowed=allowed) from error
    break_seal(state_dir, str(name))
    conf: dict[str, Any] = found["conf"]
    return conf


def _require_private(found: os.stat_result, is_kind: Any) -> None:
    """Reject what another user owns, or may have written."""
    if not is_kind(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & _OF_OTHERS:
        raise PermissionError
