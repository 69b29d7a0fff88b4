"""Decide which containers a fork of the warm interpreter starts exactly as an exec would."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from lagbench.localkube.node.pod_environment import LaunchPlan

_PROGRAMS = "lagbench.programs."
# Variables that the interpreter, the C library or a native library reads only at its start.
_READ_AT_START = re.compile(
    r"PYTHON|LD_|GLIBC_|MALLOC_|OPENBLAS_|OMP_|MKL_|GOTO_|NPY_|ARROW_|JE_|MIMALLOC_|OPENSSL_|SSL_"
    r"|LC_|LANG$|LANGUAGE$|TZ$|HOME$|VIRTUAL_ENV$|__PYVENV"
)
_LONGEST_STRING_BYTES = 32 * 4096  # the kernel's MAX_ARG_STRLEN: an exec rejects more


def forked_executable(plan: LaunchPlan, warm: Mapping[str, str]) -> str | None:
    """Return the interpreter's file if ``plan`` may be forked; None if it has to be exec'd.

    ``warm`` is the environment in which the warm interpreter was started. A plan may be
    forked if it is ``python -m`` with one of our programs, run by localkube's own interpreter, in
    the pod's own folder (modules of another folder would come first). The variables that are read
    only at start must be the same.
    """
    command, environment = plan.command, plan.environment
    if len(command) < 3 or command[1] != "-m" or not command[2].startswith(_PROGRAMS):
        return None
    if not plan.has_own_folder or _at_start(environment) != _at_start(warm):
        return None
    strings = [*command, *(f"{name}={value}" for name, value in environment.items())]
    if any("\0" in text or len(os.fsencode(text)) >= _LONGEST_STRING_BYTES for text in strings):
        return None
    found = shutil.which(command[0], path=environment.get("PATH", os.defpath))
    if found is None or not _is_own_interpreter(Path(found)):
        return None
    return found


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _READ_AT_START.match(name)}


def _is_own_interpreter(found: Path) -> bool:
    """Return whether ``found`` is ours: the same file, through the same virtual environment."""
    own = Path(sys.executable)
    return found.parent == own.parent and found.resolve() == own.resolve()
