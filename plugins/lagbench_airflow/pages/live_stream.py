"""Read ``live.jsonl`` of a run from a byte offset on, and send its lines as server-sent events.

The id of an event is the byte offset after its lines, so a stream continues wherever the browser
connects again, at any API server. A stream is short: Airflow checks the token only when it opens.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from lagbench.adapters.runs.run_folder import SECOND_GROUP, runs_root
from lagbench.core.measures.model import NANOSECONDS
from lagbench.programs.live.live_file import PhaseLog, ends_run, failures_of

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
STREAM_SECONDS = 600.0
HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
AGAIN_MILLISECONDS = 1000
"""The browser waits for that time before it opens the next stream."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""The second one lets a proxy pass each event on at once."""


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
        facts = {
            "next": self.next_offset,
            "report": self.has_report,
            "over": self.is_over,
            "failure": self.failure,
        }
        return f'{json.dumps(facts)[:-1]}, "lines": [{", ".join(self.lines)}]}}'


def read_lines(run_id: str, offset: int) -> Reading:
    """Return the lines of a run from ``offset`` on.

    An offset that is not the end of a line of this file begins again at 0. A run without the file
    has no lines yet; it will have none if its last phase has failed or has ended the run.
    """
    has_report = file_of_run(run_id, "report.html") is not None
    path, log = file_of_run(run_id, "live.jsonl"), file_of_run(run_id, "phases.jsonl")
    phases = [] if log is None else PhaseLog(log).news()
    if path is not None:
        data, begins_at = _whole_lines(path, offset)
        is_stale = time.time() - path.stat().st_mtime > STALE_SECONDS
    else:
        data, begins_at, is_stale = b"", 0, False
        if phases:  # a task that failed may be tried again
            is_old = time.time() - phases[-1].at / NANOSECONDS > STALE_SECONDS
            is_stale = ends_run(phases[-1]) or (phases[-1].state == "failed" and is_old)
    lines = [line for line in data.decode(errors="replace").split("\n") if line]
    failure = "; ".join(f"{one.name}: {one.detail}" for one in failures_of(phases))
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


async def line_events(
    run_id: str, offset: int, *, stream_seconds: float = STREAM_SECONDS
) -> AsyncIterator[str]:
    """Yield an event for new lines, one as heartbeat; end with the run or the time.

    The last event of a run is named ``over``. The heartbeat ``still`` is an event, because a page
    does not see comments: a page without either knows that something holds the stream back.
    """
    yield f"retry: {AGAIN_MILLISECONDS}\n\n"
    began = said_at = time.monotonic()
    while time.monotonic() - began < stream_seconds:
        reading = await asyncio.to_thread(read_lines, run_id, offset)
        offset, now = reading.next_offset, time.monotonic()
        if reading.lines or reading.is_over:
            said_at = now
            name = "lines" if reading.lines else "over"
            yield f"event: {name}\nid: {offset}\ndata: {reading.as_json()}\n\n"
            if reading.is_over:
                return
            continue
        if now - said_at >= HEARTBEAT_SECONDS:
            said_at = now
            yield "event: still\ndata: {}\n\n"
        await asyncio.sleep(LOOK_SECONDS)
