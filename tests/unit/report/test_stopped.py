"""The page of a run that ended without a verdict."""

from __future__ import annotations

import json
from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live.line import LiveCell, LiveLine, LiveSlo, encode_line
from lagbench.report.stopped import stopped_run, write_stopped

CELL = LiveCell(
    run_id="run-1",
    scenario="quick_spike",
    policy="lag-quick",
    partitions=12,
    planned_seconds=80.0,
    settled_seconds=None,
    floor_replicas=2,
    ceiling_replicas=12,
    spikes=[],
    slos=[LiveSlo(name="flips", title="Flapping", limit="at most 0 flips", unit="flips")],
)


def test_the_page_says_how_far_the_run_came(tmp_path: Path) -> None:
    """The last second and phase that were reported; a line that was cut off is left out."""
    folder = RunFolder.create("run-1", tmp_path)
    phases = [("inject_spike", "finished"), ("lag_drained", "started"), ("lag_drained", "progress")]
    lines = [json.dumps({"at": 10**18, "name": n, "state": s, "detail": ""}) for n, s in phases]
    folder.phases.write_text("\n".join([*lines, '{"at": 1']))
    live = [
        LiveLine(at=1, run=CELL),
        LiveLine(at=2, second=177.4, lag=4211, replicas=(6, 5), standing={"flips": (1, "broken")}),
    ]
    folder.live.write_bytes(b"".join(map(encode_line, live)) + b'{"at":')

    run = write_stopped(folder)

    assert (run.second, run.lag, run.replicas) == (177.4, 4211, (6, 5))
    assert run.text.startswith("stopped at 177 s in lag_drained")
    page = folder.report.read_text()
    assert "broken" in page
    assert not folder.verdict.exists()


def test_a_run_that_never_began_its_stream_says_so(tmp_path: Path) -> None:
    """There is nothing but its folder."""
    folder = RunFolder.create("run-1", tmp_path)

    assert stopped_run(folder).text.startswith("stopped before its stream began")
