"""Read what a run writes for its readers: some of its files, and its live lines."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass
from pathlib import Path

from lagbench.adapters.runs.run_folder import SECOND_GROUP, runs_root
from lagbench.printed_commands import runnable
from lagbench.programs.live.run_follower import PhaseLog, failures_of

_KNOWN = re.compile(
    rf"({SECOND_GROUP}/)?("
    r"report\.html|junit\.xml|observed_load\.csv|payload\.txt|scenario\.yaml|policy(-\d{1,3})?\.(yaml|diff)"
    r"|(accounting|autoscaler|checks|comparison|conf|fence|hpa|manifest|measures|prediction|verdict"
    r"|what-if)\.json|(live|phases|records)\.jsonl|logs/[A-Za-z0-9][\w.-]{0,200}\.log)"
)
"""The files that a run writes for its readers, without manifests, which may have Secrets."""
MOST_BYTES = 256 * 1024
"""Bytes of one reading: 500 lines and more."""
STALE_SECONDS = 45.0
"""Lines come each second, later each 10 s. A file without a new one for longer has no follower."""


def file_of_run(run_id: str, path: str) -> Path | None:
    """Return the file ``path`` of a run folder; None if it is not a file or is outside it.

    Links are followed first: neither a link in a run folder nor one in place of it leads out, or to
    a file of another name.
    """
    try:
        root = runs_root().resolve()
        folder = (root / run_id).resolve()
        found = (folder / path).resolve()
        is_there = folder.parent == root and found.is_file()
    except (OSError, RuntimeError, ValueError):  # too long, a loop of links, a zero byte
        return None
    if not is_there or not found.is_relative_to(folder):
        return None
    return found if _KNOWN.fullmatch(found.relative_to(folder).as_posix()) else None


@dataclass(frozen=True, slots=True)
class Reading:
    """Whole lines, the offset after them, and what the page must know beside them."""

    lines: list[str]
    next_offset: int
    has_report: bool
    is_over: bool  # no later reading has more
    failure: str  # if nobody adds lines any more: the phase that failed, and why

    def as_json(self) -> str:
        """Return it as JSON; its lines are JSON already."""
        state = {"report": self.has_report, "over": self.is_over, "failure": self.failure}
        facts = {"next": self.next_offset, **state}
        return f'{json.dumps(facts)[:-1]}, "lines": [{", ".join(self.lines)}]}}'


def read_lines(run_id: str, offset: int) -> Reading:
    """Return the lines of a run from ``offset`` on; a run without the file has none yet.

    An offset that is not the end of a line of this file begins again at 0.
    """
    has_report = file_of_run(run_id, "report.html") is not None
    path, log = file_of_run(run_id, "live.jsonl"), file_of_run(run_id, "phases.jsonl")
    phases = [] if log is None else PhaseLog(log).news()
    data, begins_at, is_stale = b"", 0, False
    if path is not None:
        data, begins_at = _whole_lines(path, offset)
        is_stale = time.time() - path.stat().st_mtime > STALE_SECONDS
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    failure = runnable("; ".join(f"{one.name}: {one.detail}" for one in failures_of(phases)))
    return Reading(
        lines,
        begins_at + len(data),
        has_report,
        is_over=not lines and (has_report or is_stale),
        failure=failure if is_stale else "",
    )


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
