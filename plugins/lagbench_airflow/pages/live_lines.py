"""Read ``live.jsonl`` of a run from a byte offset on, where any API server can continue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lagbench.core.live import LivePhase
from lagbench.core.measures import NANOSECONDS
from lagbench.programs.live.live_file import PhaseLog, ends_run, failures_of
from lagbench_airflow.pages.confined import file_of_run

MOST_BYTES = 256 * 1024
"""Bytes of one reading: 500 lines and more."""
STALE_SECONDS = 45.0
"""Lines come each second, later each 10 s. A file without a new one for longer has no follower."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Whole lines, the offset after them, and what the page must know beside them."""

    lines: list[str]
    next_offset: int
    has_report: bool
    is_stale: bool  # nobody adds lines any more
    failure: str = ""  # if nobody does: the phase that failed, and why

    @property
    def is_over(self) -> bool:
        """True: no later reading has more."""
        return not self.lines and (self.has_report or self.is_stale)


def read_lines(run_id: str, offset: int) -> Reading:
    """Return the lines of a run from ``offset`` on.

    An offset that is not the end of a line of this file begins again at 0. A run without the file
    has no lines yet; it will have none if its last phase has failed or has ended the run.
    """
    has_report = file_of_run(run_id, "report.html") is not None
    path = file_of_run(run_id, "live.jsonl")
    data, begins_at = (b"", 0) if path is None else _whole_lines(path, offset)
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    if path is None:
        phases = _phases(run_id)
        is_stale = _ended_early(phases)
    else:
        is_stale = time.time() - path.stat().st_mtime > STALE_SECONDS
        phases = _phases(run_id) if is_stale else []
    failure = "; ".join(f"{one.name}: {one.detail}" for one in failures_of(phases))
    return Reading(
        lines,
        begins_at + len(data),
        has_report,
        is_stale=is_stale,
        failure=failure if is_stale else "",
    )


def _phases(run_id: str) -> list[LivePhase]:
    path = file_of_run(run_id, "phases.jsonl")
    return [] if path is None else PhaseLog(path).news()


def _ended_early(phases: Sequence[LivePhase]) -> bool:
    """Return whether a run without a follower has ended; a task that failed may be tried again."""
    if not phases:
        return False
    last = phases[-1]
    is_old = time.time() - last.at / NANOSECONDS > STALE_SECONDS
    return ends_run(last) or (last.state == "failed" and is_old)


def _whole_lines(path: Path, offset: int) -> tuple[bytes, int]:
    with path.open("rb") as file:
        begins_at = 0
        if 0 < offset <= path.stat().st_size:
            file.seek(offset - 1)
            begins_at = offset if file.read(1) == b"\n" else 0
        file.seek(begins_at)
        while True:
            data = file.read(MOST_BYTES)
            end = data.rfind(b"\n") + 1
            if end or len(data) < MOST_BYTES:
                return data[:end], begins_at
            # No follower writes such a line: it is left out, or the stream would wait for ever.
            while data and b"\n" not in data:
                data = file.read(MOST_BYTES)
            if not data:
                return b"", begins_at
            begins_at = file.tell() - len(data) + data.find(b"\n") + 1
            file.seek(begins_at)
