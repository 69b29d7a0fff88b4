"""Know what each message costs in this pod: CPU time, then the wait of its write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lagbench.core.scenario import ConsumerFlags, ProcessCost
from lagbench.core.scenario.stream import process_ns
from lagbench.programs.consumer.partition_work import RecordChunk

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """The costs of messages in nanoseconds; ``distribution`` None: all wait equally long."""

    mean_ns: int
    """CPU time and wait of a message on average."""
    cpu_ns: int
    distribution: ProcessCost | None
    seed: int

    @classmethod
    def of(cls, flags: ConsumerFlags, seed: int) -> MessageCosts:
        """Return the costs that the flags state; ``seed`` draws those of a distribution."""
        cost = flags.process_ms
        return cls(
            mean_ns=round(flags.message_ms * _NS_PER_MS),
            cpu_ns=round(flags.cpu_ms * _NS_PER_MS),
            distribution=None if isinstance(cost, int | float) else cost,
            seed=seed,
        )

    def draw(self, chunks: Sequence[RecordChunk]) -> None:
        """Give each record of the chunks its cost, in one draw for all."""
        if self.distribution is None or not chunks:
            return
        events = np.concatenate([chunk.events for chunk in chunks])
        costs = process_ns(self.distribution, events, seed=self.seed) + self.cpu_ns
        ends = np.add.accumulate([len(chunk.offsets) for chunk in chunks])
        for chunk, drawn in zip(chunks, np.split(costs, ends[:-1]), strict=True):
            chunk.costs_ns = drawn
