"""Map the pods' clocks to the recorder's: the shift of a stamp, and its remaining error.

The rule is that of ``lagbench.core.measures.evidence.clocks``, for the stamps that only Spark
reads; a test keeps the two equal. On one machine there is one clock. Elsewhere a pod whose clock
the recorder could not read is not bounded, which is not an offset of zero.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lagbench_spark.owners import OWNER_PREFIX

ONE_MACHINE = "processes"


class PodClock(NamedTuple):
    """``shift_ns`` is subtracted from each stamp; the remaining error is ``error_ns`` at most."""

    shift_ns: int
    error_ns: int


@dataclass(frozen=True, slots=True)
class PodClocks:
    """The clocks that are bounded, by pod; ``is_one_clock``: all pods have the recorder's."""

    is_one_clock: bool
    by_pod: Mapping[str, PodClock] = field(default_factory=dict)

    def of(self, pod: str) -> PodClock | None:
        """Return the clock of a pod; None: it is not bounded.

        A partition of the output topic stands for its pods and has the stamps of the broker: all of
        them are of one clock, and only compared with each other.
        """
        if self.is_one_clock or pod.startswith(OWNER_PREFIX):
            return PodClock(0, 0)
        return self.by_pod.get(pod)

    def on_recorders(self, at: int, pod: str) -> int:
        """Return a stamp of a pod on the recorder's clock, as far as that is known."""
        clock = self.of(pod)
        return at if clock is None else at - clock.shift_ns

    @property
    def shifts(self) -> dict[str, int]:
        """The shifts by pod, without those that are 0."""
        return {pod: clock.shift_ns for pod, clock in self.by_pod.items() if clock.shift_ns}

    def most_error_ns(self, pods: Iterable[str]) -> int:
        """Return the largest error between two stamps of these pods, as far as they are bounded."""
        bounded = [clock for pod in pods if (clock := self.of(pod)) is not None]
        return 2 * max((clock.error_ns for clock in bounded), default=0)


ONE_CLOCK = PodClocks(is_one_clock=True)


def pod_clocks(
    records: Iterable[Mapping[str, Any]],
    fidelity: str | None,
    seen: Iterable[Mapping[str, Any]] = (),
) -> PodClocks:
    """Return the clocks in records ``clock_offset``; the last record of each period counts.

    ``seen``: records ``pod_seen``, which name the node whose clock their pod has. A run that does
    not record where it ran had one machine: such runs are older than the manifest.
    """
    if fidelity in (None, ONE_MACHINE):
        return ONE_CLOCK
    periods: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    name_of_pod: dict[str, str] = {}
    for record in sorted(records, key=lambda record: record["at"]):
        periods[record["clock"]][record["since_at"]] = (record["low_ns"], record["high_ns"])
        name_of_pod |= dict.fromkeys(record["pods"], record["clock"])
    placed = [record for record in seen if record.get("node") in periods]
    name_of_pod |= {record["pod"]: record["node"] for record in placed}
    clocks = {name: _clock(list(bounds.values())) for name, bounds in periods.items()}
    return PodClocks(
        is_one_clock=False, by_pod={pod: clocks[name] for pod, name in name_of_pod.items()}
    )


def _clock(bounds: list[tuple[int, int]]) -> PodClock:
    """Return the clock that all periods allow, else one that covers each of them."""
    low, high = max(low for low, _ in bounds), min(high for _, high in bounds)
    if low > high:
        low, high = min(low for low, _ in bounds), max(high for _, high in bounds)
    shift = 0 if low <= 0 <= high else (low + high) // 2
    return PodClock(shift, max(abs(low - shift), abs(high - shift)))
