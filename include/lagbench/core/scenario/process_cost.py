"""Define the wait of a message at its downstream write: one number, or a distribution."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import (
    Discriminator,
    Field,
    Tag,
    model_validator,
)

from lagbench.core.scenario.flag import StrictModel

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


NUMBER = "number"
"""The part of an error's place that says: given as a number."""
ProcessCost = LognormalCost | MixtureCost
ProcessMs = Annotated[
    Annotated[float, Field(ge=0, le=MOST_MS), Tag(NUMBER)]
    | Annotated[LognormalCost, Tag("lognormal")]
    | Annotated[MixtureCost, Tag("mixture")],
    Discriminator(_kind),
]
