"""The histogram of the time lag: exact counts on a logarithmic axis."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.report.time_lag_histogram import histogram
from lagbench.results.measure_run import measure_run

SECOND = 1_000_000_000


def test_each_message_of_the_planned_window_is_in_its_bar(tmp_path: Path) -> None:
    """Neither one that was planned later nor a row without an instant counts.

    Stamps are on the clocks of the producer and of the pods, which may be ahead.

    A limit that is near makes the axis longer; one that is far is left to the text.
    """
    run = quick_spike_run().write(tmp_path)
    measures = measure_run(run)
    assert histogram(run, measures, {}) is None  # the folder has no rows of messages
    start, end = measures.load.stream_started_at, measures.load.planned_until_at
    assert start is not None
    assert end is not None
    lags = [0.02] * 5 + [3.0] * 90 + [12.0] * 5
    rows = [(start + n, start + n + round(lag * SECOND)) for n, lag in enumerate(lags)]
    rows.append((end, end + SECOND))
    planned_at = [planned + 2 * SECOND for planned, _ in rows] + [None]
    done_at = [done + 7 * SECOND for _, done in rows] + [end]
    folder = run.table("processed")
    folder.mkdir(exist_ok=True)
    table = pa.table(
        {
            "planned_at": pa.array(planned_at, pa.int64()),
            "done_at": done_at,
            "pod": ["p"] * len(done_at),
        }
    )
    pq.write_table(table, folder / "part-00000.parquet")
    scenario = run.read_text(run.scenario)
    limits = "slos: {time_lag_p99_seconds: 30, time_lag_p95_seconds: 4000, "
    run.write_text(run.scenario, scenario.replace("slos: {", limits))

    found = histogram(run, measures, {"p": 7 * SECOND}, 2 * SECOND)

    assert found is not None
    counts = {
        value: sum(bar.messages for bar in found.bars if bar.from_seconds <= value < bar.to_seconds)
        for value in (0.02, 3.0, 12.0, 30.0)
    }
    assert counts == {0.02: 5, 3.0: 90, 12.0: 5, 30.0: 0}
    assert (found.messages, sum(bar.messages for bar in found.bars)) == (100, 100)
    assert max(bar.height for bar in found.bars) == 100
    assert found.bars[-1].left + found.bars[-1].width == pytest.approx(100, abs=0.1)
    assert len(found.bars) <= 41
    assert [mark.text for mark in found.limits] == ["limit of p99: 30 s"]
    assert [tick.text for tick in found.ticks] == ["100 ms", "1 s", "10 s"]
