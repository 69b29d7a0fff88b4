"""Define when the downstream of the consumers is slow, on the clock of the stream.

While it is slow by a factor n, all work in flight proceeds at the pace 1/n. So a write that
begins and ends inside costs n times ``process_ms``, one across an edge costs the sum of its parts,
and writes end in the order in which they began.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from lagbench.core.kubernetes.instants import NS_PER_SECOND

MOST_FACTOR = 1000.0

Instants = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Slowdown:
    """From one second of the stream to another each write costs ``factor`` times as much."""

    from_seconds: float
    until_seconds: float
    factor: float

    def __str__(self) -> str:
        return f"{self.from_seconds:.12g}-{self.until_seconds:.12g}x{self.factor:.12g}"


class DownstreamPace:
    """The pace of the downstream over the stream; instants count from the stream's start."""

    def __init__(self, slowdowns: Iterable[Slowdown] = ()) -> None:
        """Lay out the course."""
        self.slowdowns = tuple(sorted(slowdowns, key=lambda slow: slow.from_seconds))
        for slow in self.slowdowns:
            if not 0 <= slow.from_seconds < slow.until_seconds:
                raise ValueError(f"slow downstream {slow}: the end must lie after the start")
            if not 1 <= slow.factor <= MOST_FACTOR:
                raise ValueError(f"slow downstream {slow}: the factor must lie within 1 and 1000")
        for before, after in pairwise(self.slowdowns):
            if after.from_seconds < before.until_seconds:
                raise ValueError(f"slow downstream {before} and {after} overlap")
        wall, work = [0.0], [0.0]
        for slow in self.slowdowns:
            work += (work[-1] + slow.from_seconds - wall[-1],)
            wall += (slow.from_seconds,)
            work += (work[-1] + (slow.until_seconds - slow.from_seconds) / slow.factor,)
            wall += (slow.until_seconds,)
        self._wall_ns = np.array(wall) * NS_PER_SECOND
        self._work_ns = np.array(work) * NS_PER_SECOND

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[float, float, float]]) -> DownstreamPace:
        """Return the pace with a slowdown for each row, as ``rows`` has them."""
        return cls(Slowdown(*row) for row in rows)

    @property
    def rows(self) -> list[tuple[float, float, float]]:
        """Return each slowdown as (from second, until second, factor)."""
        return [(slow.from_seconds, slow.until_seconds, slow.factor) for slow in self.slowdowns]

    @property
    def is_even(self) -> bool:
        """True: the downstream is never slow."""
        return not self.slowdowns

    @property
    def changes(self) -> Sequence[tuple[float, float]]:
        """Return (second, factor from then on), ascending; before the first the factor is 1."""
        found: list[tuple[float, float]] = []
        for slow in self.slowdowns:
            if found and found[-1][0] == slow.from_seconds:
                found.pop()
            found += ((slow.from_seconds, slow.factor), (slow.until_seconds, 1.0))
        return found

    def factor_at(self, second: float) -> float:
        """Return the factor at a second of the stream."""
        inside = (s.factor for s in self.slowdowns if s.from_seconds <= second < s.until_seconds)
        return next(inside, 1.0)

    def work_ns(self, wall_ns: npt.ArrayLike) -> Instants:
        """Return the work that one busy slot can do from the stream's start to each instant."""
        return _mapped(wall_ns, self._wall_ns, self._work_ns)

    def wall_ns(self, work_ns: npt.ArrayLike) -> Instants:
        """Return the instant by which one busy slot has done each amount of work."""
        return _mapped(work_ns, self._work_ns, self._wall_ns)


def _mapped(
    values: npt.ArrayLike, of: npt.NDArray[np.float64], to: npt.NDArray[np.float64]
) -> Instants:
    """Map along straight lines; outside of them one unit is one unit."""
    given = np.asarray(values, dtype=np.int64)
    # Doubles hold a day in nanoseconds with 0.02 ns to spare; np.interp is flat outside.
    outside = given - np.clip(given, of[0], of[-1])
    inside = np.interp(np.clip(given, of[0], of[-1]), of, to)
    return np.asarray(np.rint(inside + outside), dtype=np.int64)
