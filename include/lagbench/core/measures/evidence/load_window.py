"""Compute when the load changed, from the scenario and the recorded start of the stream."""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.scenario.stream.profile import OfferedLoad
from lagbench.core.scenario.stream.spikes import Spike
from lagbench.core.telemetry.producer import StreamFinished, StreamStarted
from lagbench.core.telemetry.records import TelemetryRecord


class SpikeWindow(MeasureModel):
    """A spike of the load, from its planned start to its planned end."""

    started_at: int
    ended_at: int
    rate_before_per_second: float
    rate_peak_per_second: float


class LoadWindow(MeasureModel):
    """Planned load changes as instants; a sawtooth has many spikes, a steady stream none.

    ``spikes`` counts the planned spikes; their instants are None without a known stream start.
    """

    stream_started_at: int | None
    first_spike_started_at: int | None
    last_spike_ended_at: int | None
    spikes: int
    stream_ended_at: int | None
    base_rate_per_second: float | None
    spike_rate_per_second: float | None
    planned_until_at: int | None = None  # the end of the planned window, without the tail
    spike_windows: tuple[SpikeWindow, ...] = ()


def load_window(
    records: Sequence[TelemetryRecord],
    load: OfferedLoad,
    spikes: Sequence[Spike],
    *,
    recorded_start_at: int | None = None,
) -> LoadWindow:
    """Return the window of the stream and of its spikes, as the scenario plans them.

    The stream starts as the producer reports, else at ``recorded_start_at``. It ends with the
    producer's final record, else as planned.
    """
    started = [r.stream_started_at for r in records if isinstance(r, StreamStarted)]
    start = min(started, default=recorded_start_at)
    planned_until_at = None if start is None else start + load.duration_ns
    finished = [r.at for r in records if isinstance(r, StreamFinished)]
    windows = () if start is None else tuple(_window(spike, start) for spike in spikes)
    return LoadWindow(
        stream_started_at=start,
        first_spike_started_at=windows[0].started_at if windows else None,
        last_spike_ended_at=windows[-1].ended_at if windows else None,
        spikes=len(spikes),
        stream_ended_at=max(finished, default=planned_until_at),
        base_rate_per_second=spikes[0].rate_before if spikes else None,
        spike_rate_per_second=spikes[0].rate_peak if spikes else None,
        planned_until_at=planned_until_at,
        spike_windows=windows,
    )


def _window(spike: Spike, start: int) -> SpikeWindow:
    return SpikeWindow(
        started_at=start + round(spike.start_seconds * NANOSECONDS),
        ended_at=start + round(spike.end_seconds * NANOSECONDS),
        rate_before_per_second=spike.rate_before,
        rate_peak_per_second=spike.rate_peak,
    )
