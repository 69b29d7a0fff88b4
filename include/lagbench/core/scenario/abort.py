"""Define when a run is given up in mid-stream, before it fills a disk or measures nothing.

The producer then ends the stream, the waits for drain and settling end, and the run accounts for
what was sent. It has taken another load than planned, so it never passes. Only the producer looks
at the limits, through stream and tail: before and after them the run offers no load.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from lagbench.core.scenario.actions import ActionBase, BrokerRestart
from lagbench.core.scenario.conf_limits import StrictModel

MEBIBYTE = 2**20


class Abort(StrictModel):
    """The limits; one that is None is not watched."""

    lag_records: int | None = Field(None, ge=1, description="most messages of a group's total lag")
    disk_free_mebibytes: int | None = Field(
        None, ge=1, description="least free space on the disk of the embedded bench"
    )
    observer_starved_seconds: float | None = Field(
        None, ge=5, le=86_400, description="longest time without the recorder's reading of the lag"
    )

    def problems(self, actions: Sequence[ActionBase]) -> Iterator[str]:
        """Yield that there is no limit, and what the scenario's actions would break themselves."""
        if self == Abort():
            yield f"abort must be left out, or have one of {', '.join(Abort.model_fields)}"
        for number, action in enumerate(actions):
            starved = self.observer_starved_seconds
            if starved and isinstance(action, BrokerRestart) and action.for_seconds >= starved:
                yield (
                    f"abort.observer_starved_seconds must be above {action.for_seconds:g}: for "
                    f"that time actions.{number} leaves the recorder without a broker"
                )

    def reason(
        self, *, lag_records: int | None, silent_seconds: float, disk_free_bytes: int
    ) -> str:
        """Return the limit that is broken, with its value; empty: none is.

        :param lag_records: the newest known total lag; None: it is not known yet.
        :param silent_seconds: since the newest reading, or since the stream began.
        """
        most, least = self.lag_records, self.disk_free_mebibytes
        if most is not None and lag_records is not None and lag_records > most:
            return f"total lag {lag_records:,} is above abort.lag_records {most:,}"
        if least is not None and disk_free_bytes < least * MEBIBYTE:
            free = f"{disk_free_bytes // MEBIBYTE:,} MiB are free"
            return f"{free}, below abort.disk_free_mebibytes {least:,}"
        starved = self.observer_starved_seconds
        if starved is not None and silent_seconds > starved:
            silent = f"the recorder has not read the lag for {silent_seconds:.1f} s"
            return f"{silent}, above abort.observer_starved_seconds {starved:g}"
        return ""

    def scaled(self, factor: float) -> Abort:
        """Return the limits at ``factor`` of the load: lag is records, the others are not."""
        if self.lag_records is None:
            return self
        return self.model_copy(update={"lag_records": max(1, round(self.lag_records * factor))})
