"""The lag that all controllers are offered, by second: it does not depend on what they do."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

LENGTH_SECONDS = 180
LAG_THRESHOLD = 10
FLOOR, CEILING = 2, 12
_REST = 10
_STEP_FROM, _STEP_TO, _STEP_LAG = 20, 90, 95
_TOOTH_SECONDS, _TOOTH_RISE_SECONDS, _TOOTH_LAG = 40, 30, 110
_NOISE_MEAN, _NOISE_DEVIATION, _NOISE_SEED = 45, 15, 20260801


def step() -> list[int]:
    """Return rest, ten replicas' worth of lag for 70 s, rest."""
    return [
        _STEP_LAG if _STEP_FROM <= second < _STEP_TO else _REST for second in range(LENGTH_SECONDS)
    ]


def sawtooth() -> list[int]:
    """Return a rise of 30 s and a fall of 10 s, again and again."""
    lags = []
    for second in range(LENGTH_SECONDS):
        phase = second % _TOOTH_SECONDS
        share = min(
            phase / _TOOTH_RISE_SECONDS,
            (_TOOTH_SECONDS - phase) / (_TOOTH_SECONDS - _TOOTH_RISE_SECONDS),
        )
        lags.append(round(_REST + share * (_TOOTH_LAG - _REST)))
    return lags


def noise() -> list[int]:
    """Return a level of four to five replicas' worth with noise of a third of it, seeded."""
    chance = Random(_NOISE_SEED)
    return [
        max(0, round(chance.gauss(_NOISE_MEAN, _NOISE_DEVIATION))) for _ in range(LENGTH_SECONDS)
    ]


HISTORIES: dict[str, Callable[[], list[int]]] = {
    "step": step,
    "sawtooth": sawtooth,
    "noise": noise,
}


def wanted(lag: int) -> int:
    """Return the lab's rule without any memory: lag by threshold, rounded up, within the bounds."""
    return max(FLOOR, min(CEILING, -(-lag // LAG_THRESHOLD)))
