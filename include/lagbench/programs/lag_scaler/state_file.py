"""Store the windows on disk, so that a restart does not set the sustain clocks back.

It is a file and not a compacted topic. The scaler must report an unreachable broker, so it must not
need that broker to start; it watches several clusters, none of which is its own, and Iggy servers,
which have no compacted topics; and reading offsets needs no right to write anything. A file does
not outlive its disk: on Kubernetes it belongs on a volume claim (an emptyDir outlives a container,
not a pod), as k8s/base/lag-scaler has it. Losing it costs one sustain time.

Written beside the old one, flushed to the disk and renamed, so that a crash leaves the old or the
new state and nothing between; readable by its owner only. It holds no login: see ``registry``.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from lagbench.errors import NotReady

_OWNER_ONLY = 0o600


class StateFile:
    """One file with the last state."""

    def __init__(self, path: Path) -> None:
        """Take the path; its folder has to be there."""
        self._path = path

    def read(self) -> bytes | None:
        """Return the last state; None when there is none yet.

        :raises NotReady: there is one that cannot be read.
        """
        try:
            return self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NotReady(f"cannot read the state file {self._path}: {error.strerror}") from error

    def write(self, content: bytes) -> None:
        """Replace the state; on the disk when this returns.

        :raises NotReady: it could not be written; the last state is still there.
        """
        beside = self._path.with_name(f"{self._path.name}.new")
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
            self._flush_folder()
        except OSError as error:
            raise NotReady(f"cannot write the state file {self._path}: {error.strerror}") from error

    def _flush_folder(self) -> None:
        """Make the renaming durable; some file systems cannot sync a folder."""
        handle = os.open(self._path.parent, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):
                os.fsync(handle)
        finally:
            os.close(handle)
