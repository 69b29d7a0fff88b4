"""Define poison: a key whose messages fail or hang in the consumers, in a part of the stream."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lagbench.core.scenario.flag import StrictModel

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
