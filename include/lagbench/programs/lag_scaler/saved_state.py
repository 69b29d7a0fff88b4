"""The state file: the watched objects and their windows, so that a restart goes on with them.

It is a file and not a compacted topic. The scaler must report an unreachable broker, so it must not
need that broker to start; it watches several clusters, none of which is its own, and Iggy servers,
which have no compacted topics; and reading offsets needs no right to write anything. On Kubernetes
the file belongs on a volume claim (an emptyDir outlives a container, not a pod), as
k8s/base/lag-scaler has it. Losing it costs one sustain time.

An object whose metadata carries a secret (KEDA has put it there for a FromEnv key) is left out:
no secret is ever written. Its window is kept and waits for KEDA's next call.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from lagbench.core.lag_scaler.lag_metadata import FROM_ENV, SECRET_KEYS
from lagbench.errors import NotReady

FORMAT = "lagbench-lag-scaler/1"


class SavedObject(msgspec.Struct, frozen=True):
    """One object as KEDA names it."""

    namespace: str
    name: str
    metadata: dict[str, str]


class SavedState(msgspec.Struct, frozen=True):
    """Everything; ``windows`` by identity (cluster, group, topic, interval)."""

    saved_at_ns: int
    objects: list[SavedObject]
    windows: dict[str, bytes]
    format: str = FORMAT


def savable(metadata_keys: Iterable[str]) -> bool:
    """Return whether an object's metadata holds no secret."""
    return all(key.removesuffix(FROM_ENV) not in SECRET_KEYS for key in metadata_keys)


def read_state(path: Path) -> SavedState | None:
    """Return the last state; None when there is none yet.

    :raises NotReady: there is one that cannot be read, or of something else.
    """
    try:
        state = msgspec.msgpack.decode(path.read_bytes(), type=SavedState)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotReady(f"cannot read the state file {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise NotReady(f"the state file cannot be used: {error}") from error
    if state.format != FORMAT:
        raise NotReady(f"the state file cannot be used: its format is {state.format!r}")
    return state


def write_state(path: Path, state: SavedState) -> None:
    """Replace the state; on the disk when this returns, readable by its owner only.

    It is written beside the old one and renamed: a crash leaves the old or the new state.

    :raises NotReady: it could not be written; the last state is still there.
    """
    beside = path.with_name(f"{path.name}.new")
    try:
        handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.msgpack.encode(state))
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some file systems cannot sync one
            os.fsync(folder)
        os.close(folder)
    except OSError as error:
        raise NotReady(f"cannot write the state file {path}: {error.strerror}") from error
