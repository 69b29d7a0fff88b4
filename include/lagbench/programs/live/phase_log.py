"""Follow ``phases.jsonl`` of a run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lagbench.core.live import LivePhase

LAST_PHASE = "bench_down"
"""The last task of a Dag run that records its phase."""

_decoder = msgspec.json.Decoder(LivePhase)


@dataclass(slots=True)
class PhaseLog:
    """Reads the phases that were added since the last time."""

    path: Path
    _position: int = 0

    def news(self) -> list[LivePhase]:
        """Return the new phases; an incomplete line is read the next time."""
        with contextlib.suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._position)
            lines = [line for line in file if line.endswith(b"\n")]
            self._position += sum(map(len, lines))
            return [_decoder.decode(line) for line in lines]
        return []


def ends_run(phase: LivePhase) -> bool:
    """Return whether no other phase of the run follows."""
    return phase.name == LAST_PHASE and phase.state != "started"


def failures_of(phases: Iterable[LivePhase]) -> list[LivePhase]:
    """Return the phases that failed and were not repeated, by their instant."""
    newest: dict[str, LivePhase] = {}
    for phase in phases:
        newest.pop(phase.name, None)
        newest[phase.name] = phase
    return [phase for phase in newest.values() if phase.state == "failed"]
