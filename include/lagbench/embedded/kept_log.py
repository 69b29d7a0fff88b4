"""Keep the broker's log of a fenced run until it is accounted for.

The fence is noted in the bench's own folder, not only in the run folder, whose disk may be full.
A bench that stops, or that starts after a kill, puts the data of such a run aside instead of
deleting it. ``lagbench account RUN`` starts a broker on it. A log is deleted when its run has been
accounted for, or when its run folder was deleted: the user has given it up.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.embedded.bench_state import BenchFiles
from lagbench.embedded.broker import Broker
from lagbench.embedded.kafka_choice import write_atomically

_NOTE = "fenced.json"


def note_fence(state_dir: Path, folder: RunFolder, fences: Mapping[str, Any]) -> None:
    """Note that the running broker has the messages of a run up to ``fences``, by group."""
    note = {"run_folder": str(folder.path.absolute()), "fences": dict(fences)}
    write_atomically(BenchFiles(state_dir).broker / _NOTE, json.dumps(note))


def put_aside(files: BenchFiles) -> None:
    """Delete the data of a stopped broker, or keep it if its run is not accounted for."""
    data, note = files.broker / "data", _read(files.broker / _NOTE)
    if note is not None and data.is_dir() and _needs_log(note):
        kept = _folder(files.state_dir, RunFolder(Path(note["run_folder"])))
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        (files.broker / _NOTE).rename(kept / _NOTE)
        data.rename(kept / "data")
    shutil.rmtree(data, ignore_errors=True)
    (files.broker / _NOTE).unlink(missing_ok=True)
    for kept in _root(files.state_dir).glob(f"*/{_NOTE}"):
        found = _read(kept)
        if found is None or not _needs_log(found):
            shutil.rmtree(kept.parent)


def has_log(state_dir: Path, folder: RunFolder) -> bool:
    """Return whether a log is there, put aside or still with the bench's own broker."""
    files = BenchFiles(state_dir)
    places = (_folder(state_dir, folder), files.broker)
    return any(
        (place / "data").is_dir()
        and note is not None
        and RunFolder(Path(note["run_folder"])).run_id == folder.run_id
        for place in places
        for note in [_read(place / _NOTE)]
    )


def how_to_account(state_dir: Path, folder: RunFolder) -> str:
    """Return how to repeat the accounting of a fenced run; empty: it has one, or no fence.

    It names only a source that it found.
    """
    if folder.accounting.exists():
        return ""
    if folder.has_landed():
        source = "tables are landed"
    elif all(folder.has_copy(kind) for kind in LANDED_TABLES):
        source = "topics are copied"
    elif has_log(state_dir, folder):
        source = f"log is kept in {state_dir}"
    elif not folder.fence.exists():
        return ""
    else:
        return ". Nothing is left of its messages on this machine: run it again"
    return f". Its {source}; lagbench account {folder.reference} repeats the accounting"


@contextmanager
def served_log(state_dir: Path, folder: RunFolder) -> Iterator[str | None]:
    """Serve the kept log of a run by a broker of its own, and give its address; None: none is kept.

    The fence is written into the run folder if that lacks it. After the context the log is deleted
    if the run has been accounted for.
    """
    kept = _folder(state_dir, folder)
    note = _read(kept / _NOTE)
    if note is None or not (kept / "data").is_dir():
        yield None
        return
    first = folder if not folder.is_second else RunFolder(folder.path.parent)
    for group in first.groups:
        fence = note["fences"].get(group.reference)
        if fence is not None and not group.fence.exists():
            group.write_json(group.fence, fence)
    broker = Broker(kept)
    broker.start()
    try:
        yield broker.bootstrap_servers
    finally:
        broker.stop()
        if not _needs_log(note):
            shutil.rmtree(kept)


def _needs_log(note: Mapping[str, Any]) -> bool:
    """Return whether a group of the run has neither an accounting, nor tables, nor copies."""
    folder = RunFolder(Path(note["run_folder"]))
    return folder.path.is_dir() and any(
        not group.accounting.exists()
        and not group.has_landed()
        and not all(group.has_copy(kind) for kind in LANDED_TABLES)
        for group in folder.groups
    )


def _root(state_dir: Path) -> Path:
    return state_dir.absolute() / "kept-logs"


def _folder(state_dir: Path, folder: RunFolder) -> Path:
    return _root(state_dir) / folder.run_id


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
