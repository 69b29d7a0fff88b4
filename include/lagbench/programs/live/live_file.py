"""Append to ``live.jsonl``: whole lines, by one process at a time, up to a bound."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from lagbench.core.live import LiveLine, encode_line, has_room
from lagbench.errors import NotReady

LOOKS, LOOK_SECONDS = 10, 0.1


def is_followed(path: Path) -> bool:
    """Return whether a follower holds the file; False also without the file."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


class LiveFile:
    """The file, held by a lock while it is open. A reader sees whole lines only."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending.

        :raises NotReady: another process appends to it, or it cannot be opened.
        """
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            raise NotReady(f"cannot write {path}: {error.strerror}") from error
        if not self._hold():
            os.close(self._file)
            raise NotReady(f"{path} already has a follower")
        self._size = os.fstat(self._file).st_size

    def __enter__(self) -> Self:
        """Hold the file."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the file go."""
        os.close(self._file)

    def _hold(self) -> bool:
        """Take the lock; one who only looks whether it is held has it for an instant."""
        for _ in range(LOOKS):
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(LOOK_SECONDS)
            else:
                return True
        return False

    def append(self, line: LiveLine) -> bool:
        """Append the line with one write; False: the file is full, and nothing was written."""
        data = encode_line(line)
        if not has_room(self._size, data):
            return False
        self._size += os.write(self._file, data)
        return True
