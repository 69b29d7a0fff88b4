"""Send the live lines of a run as server-sent events.

The id of an event is the byte offset after its lines, so a stream continues wherever the browser
connects again. A stream is short: Airflow checks the token only when it is opened.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

from lagbench_airflow.pages.live_lines import Reading, read_lines

STREAM_SECONDS = 600.0
HEARTBEAT_SECONDS = 15.0
LOOK_SECONDS = 1.0
AGAIN_MILLISECONDS = 1000
"""The browser waits for that time before it opens the next stream."""
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
"""The second one lets a proxy pass each event on at once."""


async def line_events(
    run_id: str,
    offset: int,
    *,
    stream_seconds: float = STREAM_SECONDS,
    look_seconds: float = LOOK_SECONDS,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> AsyncIterator[str]:
    """Yield an event for new lines, one as heartbeat; end with the run or the time.

    The last event of a run is named ``over``. The heartbeat ``still`` is an event, because a page
    does not see comments: a page without either knows that something holds the stream back.
    """
    yield f"retry: {AGAIN_MILLISECONDS}\n\n"
    began = said_at = time.monotonic()
    while time.monotonic() - began < stream_seconds:
        reading = await asyncio.to_thread(read_lines, run_id, offset)
        offset = reading.next_offset
        now = time.monotonic()
        if reading.lines:
            said_at = now
            yield _event("lines", reading)
            continue
        if reading.is_over:
            yield _event("over", reading)
            return
        if now - said_at >= heartbeat_seconds:
            said_at = now
            yield "event: still\ndata: {}\n\n"
        await asyncio.sleep(look_seconds)


def as_json(reading: Reading) -> str:
    """Return a reading as JSON; its lines are JSON already."""
    facts = {
        "next": reading.next_offset,
        "report": reading.has_report,
        "over": reading.is_over,
        "failure": reading.failure,
    }
    return f'{json.dumps(facts)[:-1]}, "lines": [{", ".join(reading.lines)}]}}'


def _event(name: str, reading: Reading) -> str:
    return f"event: {name}\nid: {reading.next_offset}\ndata: {as_json(reading)}\n\n"
