"""Place the windows of cron triggers in a run's stream, as an annotation of the policy asks.

``lagbench.io/cron-windows: 60-180`` on a ScaledObject means: in a run, its cron trigger is open
from 60 to 180 s of the stream; several cron triggers have several windows, in their order. The
trigger itself keeps the hours of production, which count outside of runs. Cron has whole minutes,
so a run starts its stream at an instant that puts each edge on one.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.errors import WrongInput

START_PRECISION_SECONDS = 1.0
"""A stream that misses its planned start by this much or more has its cron windows elsewhere."""
WINDOWS_ANNOTATION = "lagbench.io/cron-windows"
_WINDOW = re.compile(r"\s*(\d+)\s*-\s*(\d+)\s*")
_MINUTE = 60
_ALLOWED = (
    "FROM-UNTIL in seconds of the stream for each cron trigger, in order, e.g. 60-180 or 60-180, "
    "300-360: whole minutes long and apart"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class StreamWindow:
    """A window in whole seconds from the stream's start."""

    from_seconds: int
    until_seconds: int


def stream_windows(manifest: Mapping[str, Any], *, where: str) -> tuple[StreamWindow, ...]:
    """Return the windows that the policy's annotation states, one for each cron trigger.

    :raises WrongInput: it has another form, or more or fewer windows than there are cron triggers.
    """
    text = ((manifest.get("metadata") or {}).get("annotations") or {}).get(WINDOWS_ANNOTATION)
    if text is None:
        return ()
    parts = [_WINDOW.fullmatch(part) for part in str(text).split(",")]
    found = tuple(StreamWindow(int(part[1]), int(part[2])) for part in parts if part)
    is_wrong = len(found) < len(parts) or any(w.from_seconds >= w.until_seconds for w in found)
    edges = {edge % _MINUTE for w in found for edge in (w.from_seconds, w.until_seconds)}
    if is_wrong or len(edges) != 1 or len(found) != len(_cron_triggers(manifest)):
        allowed = f"{_ALLOWED} (the policy has {len(_cron_triggers(manifest))} cron triggers)"
        field = f"metadata.annotations[{WINDOWS_ANNOTATION}]"
        raise WrongInput(where=where, field=field, value=text, allowed=allowed)
    return found


def aligned_start_ns(windows: tuple[StreamWindow, ...], earliest_ns: int) -> int:
    """Return the first start of a stream from ``earliest_ns`` on that puts edges on minutes."""
    period = _MINUTE * NS_PER_SECOND
    edge = windows[0].from_seconds * NS_PER_SECOND
    return -(-(earliest_ns + edge) // period) * period - edge


def at_stream_start(
    manifest: Mapping[str, Any], starts_at_ns: int, *, where: str
) -> dict[str, Any]:
    """Return the policy with each cron trigger open in its window of a stream.

    The schedules name day and month, in UTC: they come once in this year. Without the annotation
    the policy stays as it is.
    """
    placed = copy.deepcopy(dict(manifest))
    windows = stream_windows(placed, where=where)
    for trigger, window in zip(_cron_triggers(placed), windows, strict=False):
        trigger["metadata"] = {
            **(trigger.get("metadata") or {}),
            "timezone": "UTC",
            "start": _schedule(starts_at_ns + window.from_seconds * NS_PER_SECOND),
            "end": _schedule(starts_at_ns + window.until_seconds * NS_PER_SECOND),
        }
    return placed


def _cron_triggers(manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    triggers = (manifest.get("spec") or {}).get("triggers") or []
    return [trigger for trigger in triggers if trigger.get("type") == "cron"]


def _schedule(at_ns: int) -> str:
    """Return the cron schedule of the whole minute next to an instant."""
    minutes = round(at_ns / (_MINUTE * NS_PER_SECOND))
    at = _EPOCH + timedelta(minutes=minutes)
    return f"{at.minute} {at.hour} {at.day} {at.month} *"
