"""How long a pod of the consumers is made to wait before it joins, as on a cluster it has to.

A cluster pulls the image and sometimes starts a node first; a process on the embedded bench is
there in a tenth of a second. ``consumer.start_seconds`` is the mean of what stands for that. Each
pod's own delay follows from the scenario's seed and from the how-manieth pod of its run it is, so
the same cell, a rerun and the simulation all give the n-th pod the same one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from lagbench.core.scenario.scenario import ConsumerSettings

DEFAULT_START_SECONDS = 1.2
"""What a pod took from its creation to Ready while each was an interpreter of its own."""
START_SPREAD = 0.25
"""A pod's delay is drawn evenly from the mean +- this share of it."""


@dataclass(frozen=True, slots=True)
class StartDelay:
    """The delays of a run's pods."""

    mean_seconds: float
    seed: int
    spread: float = START_SPREAD

    @property
    def longest_seconds(self) -> float:
        """Return what no delay is longer than."""
        return self.mean_seconds * (1.0 + self.spread)

    def of_pod(self, number: int) -> float:
        """Return the delay in seconds of the pod that was created as number ``number``, from 0."""
        drawn = hashlib.blake2b(f"{self.seed} {number}".encode(), digest_size=8).digest()
        share = int.from_bytes(drawn, "big") / 2**64
        return self.mean_seconds * (1.0 + self.spread * (2.0 * share - 1.0))


def start_delay(settings: ConsumerSettings, seed: int, *, is_embedded: bool) -> StartDelay | None:
    """Return the delays of a run; None: its pods just start.

    On a cluster starting takes what it takes, so there a delay has to be asked for.
    """
    if settings.start_seconds is None and not is_embedded:
        return None
    return StartDelay(mean_start_seconds(settings), seed)


def mean_start_seconds(settings: ConsumerSettings) -> float:
    """Return the mean delay on the embedded bench and in a simulation."""
    given = settings.start_seconds
    return DEFAULT_START_SECONDS if given is None else given
