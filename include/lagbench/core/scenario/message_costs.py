"""Define the wait of a message at its downstream write: one number, or a distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Discriminator, Field, Tag, model_validator

from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.scenario.conf_limits import StrictModel
from pod_program.flags import NUMBER

MOST_MS = 60_000.0
"""The longest wait of one message; a draw above it is cut to it."""
_MOST_P99 = 14.0  # times the mean; beyond e^(z²/2) = 14.96 no lognormal has it
_P99_DEVIATIONS = 2.3263478740408408
"""Standard deviations of a normal distribution up to its 99th percentile."""


class LognormalCost(StrictModel):
    """A right-skewed distribution, by its mean and its 99th percentile."""

    kind: Literal["lognormal"]
    mean_ms: float = Field(gt=0, le=MOST_MS)
    p99_ms: float = Field(gt=0, le=MOST_MS)

    @model_validator(mode="after")
    def _has_a_shape(self) -> LognormalCost:
        if not 1 < self.p99_ms / self.mean_ms <= _MOST_P99:
            raise ValueError(
                f"consumer.process_ms.p99_ms must be above mean_ms, at most {_MOST_P99:g} times it"
            )
        return self

    @property
    def sigma(self) -> float:
        """Return the standard deviation of the logarithm."""
        # ln p99 = mu + z sigma and ln mean = mu + sigma² / 2; the smaller solution is the tail's.
        spread = math.log(self.p99_ms / self.mean_ms)
        return _P99_DEVIATIONS - math.sqrt(_P99_DEVIATIONS**2 - 2 * spread)

    @property
    def mu(self) -> float:
        """Return the mean of the logarithm of the milliseconds."""
        return math.log(self.mean_ms) - self.sigma**2 / 2


class CostPart(StrictModel):
    """A share of the messages that wait ``ms``."""

    share: float = Field(gt=0, le=1)
    ms: float = Field(ge=0, le=MOST_MS)


class MixtureCost(StrictModel):
    """A few fixed waits, each for a share of the messages."""

    kind: Literal["mixture"]
    parts: tuple[CostPart, ...] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _shares_are_all(self) -> MixtureCost:
        if not math.isclose(sum(part.share for part in self.parts), 1, abs_tol=1e-6):
            raise ValueError("consumer.process_ms.parts must be shares with the sum 1")
        return self

    @property
    def mean_ms(self) -> float:
        """Return the mean wait."""
        return math.fsum(part.share * part.ms for part in self.parts)


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("kind", "none"))
    return str(getattr(value, "kind", NUMBER))


ProcessCost = LognormalCost | MixtureCost

ProcessMs = Annotated[
    Annotated[float, Field(ge=0, le=MOST_MS), Tag(NUMBER)]
    | Annotated[LognormalCost, Tag("lognormal")]
    | Annotated[MixtureCost, Tag("mixture")],
    Discriminator(_kind),
]

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


Effect = Literal["fail", "hang"]


class Poison(StrictModel):
    """One key of the stream, by its rank: 1 is the most frequent one.

    The messages that are planned in the window are poisoned, whenever they are processed.
    """

    key_rank: int = Field(ge=1, le=100_000_000)
    effect: Effect
    from_seconds: float = Field(ge=0, le=86_400, description="of the stream")
    for_seconds: float = Field(gt=0, le=86_400)
    attempts: int = Field(3, ge=1, le=100, description="fail: attempts until it is given up")
    hang_seconds: float = Field(10, gt=0, le=3600, description="hang: longer work on each message")


class PoisonedKey(StrictModel):
    """Poison as a pod knows it: the key itself, and the window in the stream."""

    entity_id: int = Field(ge=0)
    effect: Effect
    from_offset_ns: int = Field(ge=0)
    until_offset_ns: int = Field(ge=0)
    attempts: int = Field(ge=1, le=100)
    hang_ns: int = Field(ge=0)


def scaled_cost(cost: ProcessMs, factor: float) -> ProcessMs:
    """Return the wait of a message times ``factor``."""
    if isinstance(cost, LognormalCost):
        update = {"mean_ms": cost.mean_ms * factor, "p99_ms": cost.p99_ms * factor}
        return cost.model_copy(update=update)
    if isinstance(cost, MixtureCost):
        parts = tuple(one.model_copy(update={"ms": one.ms * factor}) for one in cost.parts)
        return cost.model_copy(update={"parts": parts})
    return float(f"{cost * factor:.12g}")  # without the noise of binary fractions
