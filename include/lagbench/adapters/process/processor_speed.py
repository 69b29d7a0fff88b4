"""Measure the speed of this machine's processors, and count those that the bench may use.

A virtual machine can have its two cores and yet a quarter of their speed, for as long as others use
the host: a scenario that it carried yesterday is then invalid by a late generator.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

_LOOPS = 15
_ADDITIONS = 100_000
_REFERENCE_SECONDS = 0.0026
"""One loop on the machine on which core/simulation/plan.py was measured, while it was quiet."""


@dataclass(frozen=True, slots=True)
class Processor:
    """``speed`` is 1.0 on the machine on which the needs of a cell were measured."""

    cores: int
    speed: float


def usable_cores() -> int:
    """Return the cores that this process may run on."""
    return len(os.sched_getaffinity(0))


def this_processor() -> Processor:
    """Measure the processor in a fraction of a second: the best of short loops.

    Other processes do not count: the answer must hold for more than a moment.
    """
    best = min(_loop_seconds() for _ in range(_LOOPS))
    return Processor(cores=usable_cores(), speed=_REFERENCE_SECONDS / best)


def _loop_seconds() -> float:
    """Return how long an interpreter takes to add numbers, as it does in each of our programs."""
    total = 0
    began = time.perf_counter()
    for number in range(_ADDITIONS):
        total += number & 7
    return time.perf_counter() - began
