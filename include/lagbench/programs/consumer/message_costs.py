"""Know what each message costs in this pod: CPU time, then the wait of its write.

A poisoned message that fails costs every attempt; one that hangs takes longer by the hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.scenario.poison import PoisonedKey
from lagbench.core.scenario.process_cost import ProcessCost
from lagbench.core.scenario.stream.cost_draws import process_ns
from lagbench.core.scenario.stream.poisoned import is_poisoned
from lagbench.programs.consumer.downstream_clock import Instants
from lagbench.programs.consumer.partition_work import Attempts, RecordChunk
from lagbench.programs.consumer.settings import WorkOptions
from lagbench.shared_with_spark.event import Events

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """The costs of messages in nanoseconds; ``distribution`` None: all wait equally long."""

    mean_ns: int
    """CPU time and wait of a message on average."""
    cpu_ns: int
    distribution: ProcessCost | None
    seed: int
    """Draws the costs of a distribution."""
    poison: PoisonedKey | None

    @classmethod
    def of(cls, options: WorkOptions) -> MessageCosts:
        """Return the costs that a pod's options state."""
        cost = options.process_ms
        return cls(
            mean_ns=round(options.message_ms * _NS_PER_MS),
            cpu_ns=round(options.cpu_ms * _NS_PER_MS),
            distribution=None if isinstance(cost, int | float) else cost,
            seed=options.work_seed,
            poison=options.poison,
        )

    def draw(self, chunks: Sequence[RecordChunk]) -> None:
        """Give each record of the chunks its cost, and its failure, in one draw for all."""
        if not chunks or (self.distribution is None and self.poison is None):
            return
        events = np.concatenate([chunk.events for chunk in chunks])
        costs, failed = self._costs(events)
        borders = np.add.accumulate([len(chunk.offsets) for chunk in chunks])[:-1]
        if costs is not None:
            for chunk, drawn in zip(chunks, np.split(costs, borders), strict=True):
                chunk.costs_ns = drawn
        if failed is not None:
            for chunk, given_up in zip(chunks, np.split(failed, borders), strict=True):
                chunk.failed_attempts = given_up

    def _costs(self, events: Events) -> tuple[Instants | None, Attempts | None]:
        """Return the costs and the failed attempts of the events; None: nothing special."""
        costs: Instants | None = None
        if self.distribution is not None:
            costs = process_ns(self.distribution, events, seed=self.seed) + self.cpu_ns
        if self.poison is None:
            return costs, None
        poisoned = is_poisoned(self.poison, events)
        if not poisoned.any():
            return costs, None
        if costs is None:
            costs = np.full(len(events), self.mean_ns, dtype=np.int64)
        if self.poison.effect == "hang":
            return costs + poisoned * self.poison.hang_ns, None
        failed = (poisoned * self.poison.attempts).astype(np.uint8)
        return costs * np.maximum(failed, 1), failed
