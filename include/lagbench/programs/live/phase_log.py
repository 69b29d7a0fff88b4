"""Follow ``phases.jsonl`` of a run folder."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lagbench.core.live import LivePhase

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
