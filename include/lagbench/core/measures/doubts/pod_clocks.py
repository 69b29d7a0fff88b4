"""Find the pod whose clock cannot be right: by what it did before it was there, and by the log.

Records of all sources lie in one topic in the order in which the broker took them, and the recorder
writes there all the time. So the log itself says when a pod's record was written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lagbench.core.measures.doubts.window import Window
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence

OFF_SECONDS = 5.0
"""A record waits in a client for milliseconds; a bound on two clocks is far below this."""


def clocks_off(run: RunEvidence, window: Window) -> Iterator[str]:
    """Yield each pod with a clock that is off, with by how much."""
    stamps_of: dict[str, list[int]] = defaultdict(list)
    for record in run.records:
        stamps_of[record.source].append(record.at)
    for pod, timeline in run.timelines.items():
        stamps = stamps_of[pod]
        clock = run.clocks.of_pod(pod)  # what is known of it is taken off every stamp
        known_seconds = 0.0 if clock is None else clock.shift_ns / NANOSECONDS
        off = run.clock_skews.get(pod, known_seconds) - known_seconds
        if abs(off) > OFF_SECONDS:
            yield f"the clock of {pod} is {off:+.1f} s off: by the order of the records in the log"
        elif stamps and timeline.created_at - min(stamps) > OFF_SECONDS * NANOSECONDS:
            early = (timeline.created_at - min(stamps)) / NANOSECONDS
            yield (
                f"the clock of {pod} is off: it reported {early:.1f} s before it was created"
                f" {window.when(timeline.created_at)}"
            )
        elif (
            stamps
            and timeline.gone_at is not None
            and max(stamps) - timeline.gone_at > OFF_SECONDS * NANOSECONDS
        ):
            late = (max(stamps) - timeline.gone_at) / NANOSECONDS
            yield (
                f"the clock of {pod} is off: it reported {late:.1f} s after its end"
                f" {window.when(timeline.gone_at)}"
            )
