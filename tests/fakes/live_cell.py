"""The cell of a run in progress, for the tests of its live lines."""

from __future__ import annotations

from lagbench.core.live.live_line import LiveCell, LiveSpike
from lagbench.core.live.slo_standings import live_slos
from lagbench.core.scenario.slo_limits import Slos


def live_cell(*spikes: tuple[float, float], slos: Slos | None = None) -> LiveCell:
    """Return a cell of 60 planned seconds with two partitions, spikes and the SLOs' limits.

    :param spikes: their begins and ends in seconds of the stream.
    :param slos: None: it has none.
    """
    return LiveCell(
        run_id="a-run",
        scenario="a_scenario",
        policy="lag",
        partitions=2,
        planned_seconds=60.0,
        settled_seconds=80.0,
        floor_replicas=1,
        ceiling_replicas=4,
        spikes=[LiveSpike(start_seconds=a, end_seconds=b) for a, b in spikes],
        slos=[] if slos is None else live_slos(slos),
    )
