"""The data block of a page: the run's series and events as JSON, for ``scripts/charts.js``.

Instants are milliseconds since the report's origin. Those of samples are coded by difference: the
first is absolute. The block is made of the run folder's tables and measures alone, so that the same
folder always gives the same bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lagbench.core.measures import NANOSECONDS, Measures
from lagbench.report.run_series import Floats, RunSeries, Series

MILLISECONDS = 1000
NANOSECONDS_PER_MILLISECOND = NANOSECONDS // MILLISECONDS
DIGITS = 4
"""Decimals of a value; a CPU of 0.1 % of a core is still seen."""

_IN_A_SCRIPT = str.maketrans(
    {
        "<": "\\u003c",  # no name can end the script element
        ">": "\\u003e",
        "&": "\\u0026",
        "\u2028": "\\u2028",
        "\u2029": "\\u2029",
    }
)


def data_block(series: RunSeries, measures: Measures) -> str:
    """Return the JSON text, which may stand inside a ``<script>`` element."""
    block = {
        "origin": {"name": series.origin_name},
        "tables": {
            "lag": _table(total=series.total_lag, hottest=series.hottest_lag),
            "replicas": _table(desired=series.desired, ready=series.ready),
            "rates": _table(offered=series.offered, consumed=series.consumed),
            "latency": _table(p99=series.latency_p99),
            "cpu": _table(mean=series.cpu_mean, highest=series.cpu_highest),
        },
        "pods": [
            {
                "pod": pod.pod,
                "ms": _differences(pod.seconds),
                "partitions": _values(pod.partitions),
                "gone": None if pod.gone is None else round(pod.gone * MILLISECONDS),
            }
            for pod in series.pods
            if pod.seconds.size
        ],
        "events": _events(series, measures),
    }
    text = json.dumps(block, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_IN_A_SCRIPT)


def _table(**columns: Series) -> dict[str, Any]:
    """Return columns that share their instants."""
    first, *_ = columns.values()
    return {
        "ms": _differences(first.seconds),
        "columns": {name: _values(series.values) for name, series in columns.items()},
    }


def _differences(seconds: Floats) -> list[int]:
    whole = np.rint(seconds * MILLISECONDS).astype(np.int64)
    return [] if whole.size == 0 else [int(whole[0]), *np.diff(whole).tolist()]


def _values(values: Floats) -> list[float | None]:
    return [_shortest(value) for value in values.tolist()]


def _shortest(value: float) -> float | None:
    """Return a value as JSON can hold it shortest; not finite: it was not measured."""
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else round(value, DIGITS)


def _events(series: RunSeries, measures: Measures) -> dict[str, list[Mapping[str, Any]]]:
    """Return the events by kind; an end that is null was not seen: it lasts to the chart's edge."""

    def since(at: int | None) -> int | None:
        return None if at is None else round((at - series.origin_at) / NANOSECONDS_PER_MILLISECOND)

    load = measures.load
    windows = [(window.started_at, window.ended_at) for window in load.spike_windows]
    first, last = load.first_spike_started_at, load.last_spike_ended_at
    if not windows and first is not None and last is not None:
        windows = [(first, last)]  # measured before each spike was kept
    names = ["spike"] if len(windows) == 1 else [f"spike {n + 1}" for n in range(len(windows))]
    spikes: list[Mapping[str, Any]] = [
        {"name": name, "start": since(start), "end": since(end)}
        for name, (start, end) in zip(names, windows, strict=True)
    ]
    return {
        "phases": [
            {
                "name": span.name.replace("_", " "),
                "start": round(span.start * MILLISECONDS),
                "end": round(span.end * MILLISECONDS),
            }
            for span in series.phases
        ],
        "spikes": spikes,
        "actions": [
            {
                "name": action.kind.replace("_", " "),
                "start": since(action.started_at),
                "end": since(action.ended_at),
            }
            for action in measures.actions
            if action.started_at is not None
        ],
        "episodes": [
            {
                "trigger": episode.trigger,
                "start": since(episode.started_at),
                "end": since(episode.ended_at),
            }
            for episode in measures.rebalances.episodes
        ],
        "changes": [
            {
                "at": since(change.at),
                "before": change.replicas_before,
                "after": change.replicas_after,
            }
            for change in measures.scaling.changes
        ],
    }
