"""Handle the faults of the machine in a command: closed pipes, other encodings, full disks."""

from __future__ import annotations

import errno
import io
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from lagbench.errors import ExitCode
from pod_program.shown import cut

_FULL_BYTES = 2**20
_SAY_FULL = ("No space left on device", "disk is full", "Disk quota exceeded")


class _LastingOutput(io.FileIO):
    """Fails once at most. A closed pipe does not fail, and the command continues."""

    _is_lost = False

    def write(self, data: Any, /) -> int:
        """Write, or drop what cannot be written."""
        if not self._is_lost:
            try:
                return super().write(data) or 0
            except BrokenPipeError:
                self._is_lost = True
            except OSError as error:
                self._is_lost = True
                raise OSError(error.errno, error.strerror, "the output") from error
        return len(data)


def make_output_last() -> None:
    """Let the process's outputs survive a closed pipe, and characters that they cannot show."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None or stream is not getattr(sys, f"__{name}__"):  # closed, or another's
            continue
        raw = _LastingOutput(stream.fileno(), "w", closefd=False)
        lasting = io.TextIOWrapper(
            io.BufferedWriter(raw),
            encoding=stream.encoding,
            errors="replace",
            line_buffering=stream.isatty() or name == "stderr",
        )
        setattr(sys, name, lasting)


def no_space(words: str) -> str | None:
    """Return which folders are full if ``words`` of a failure, or the disks, say so; else None."""
    from lagbench.adapters.runs.run_folder import runs_root
    from lagbench.embedded.broker import free_disk_bytes
    from lagbench.project import state_dir

    folders = (state_dir(), runs_root(), Path(tempfile.gettempdir()))
    full = [str(folder) for folder in folders if free_disk_bytes(folder) < _FULL_BYTES]
    if not full and not any(said in words for said in _SAY_FULL):
        return None
    return f"no space left on {', '.join(full) or 'a device'}; free some space, and try again"


def told(error: OSError) -> tuple[ExitCode, str]:
    """Return exit code and message of an error of the operating system."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT) and error.filename is not None:
        return ExitCode.NOT_READY, f"no space left on {error.filename}"
    full = no_space(str(error))
    if full is not None:
        return ExitCode.NOT_READY, full
    names = [cut(str(name)) for name in (error.filename, error.filename2) if name is not None]
    is_name = error.errno == errno.ENAMETOOLONG
    code = ExitCode.WRONG_INPUT if is_name else ExitCode.NOT_READY
    return code, ": ".join((error.strerror or cut(str(error)), *names))
