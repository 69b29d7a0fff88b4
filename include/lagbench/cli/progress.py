"""Show the live progress of a run on the terminal: phase, lag, replicas, rates, elapsed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lagbench.cli.live_figures import LiveFigures
from lagbench.core.telemetry import decode_record

_BARS = "▁▂▃▄▅▆▇█"
PLAIN_LINE_EVERY_SECONDS = 5.0


@dataclass(slots=True)
class PhaseLog:
    """Follows ``phases.jsonl`` of a run folder."""

    path: Path
    current: str = "starting"
    failures: list[str] = field(default_factory=list)
    _position: int = 0

    def advance(self) -> None:
        """Read the lines appended since the last call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._position)
            for line in file:
                if not line.endswith(b"\n"):  # an incomplete line: read it next time
                    break
                self._position += len(line)
                entry = json.loads(line)
                if entry["state"] == "started":
                    self.current = str(entry["name"])
                elif entry["state"] == "failed":
                    self.failures.append(f"{entry['name']}: {entry['detail']}")


class TelemetryReader:
    """Reads the available records of a run's telemetry topic on request; joins no group."""

    def __init__(self, settings: Mapping[str, str], topic: str) -> None:
        """Open the reader with librdkafka's ``settings``; a topic not yet there has no records."""
        self._topic = topic
        self._consumer = Consumer(
            {
                **settings,
                "group.id": "lagbench-progress",  # required, never committed
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._is_assigned = False

    def flush_into(self, figures: LiveFigures) -> None:
        """Update ``figures`` with every available record; return at once."""
        try:
            if not self._is_assigned and not self._assign():
                return
            while messages := self._consumer.consume(2000, timeout=0.05):
                for message in messages:
                    value = message.value()
                    if message.error() is None and value is not None:
                        figures.take(decode_record(value))
        except (KafkaException, msgspec.ValidationError) as error:
            figures.gap = str(error)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()

    def _assign(self) -> bool:
        known = self._consumer.list_topics(self._topic, timeout=2).topics[self._topic]
        if known.error is not None or not known.partitions:
            return False
        self._consumer.assign(
            [TopicPartition(self._topic, p, OFFSET_BEGINNING) for p in known.partitions]
        )
        self._is_assigned = True
        return True


class ProgressDisplay:
    """Draws the figures: a live panel on a terminal, a line every 5 s elsewhere."""

    def __init__(self, console: Console, run_id: str) -> None:
        """Prepare a display for one run."""
        self._console, self._run_id = console, run_id
        self._began = time.monotonic()
        self._last_line = -PLAIN_LINE_EVERY_SECONDS
        self._live: Live | None = None
        self._last_phase = ""

    def __enter__(self) -> Self:
        """Start drawing."""
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop drawing."""
        if self._live is not None:
            self._live.stop()

    def show(self, phase: str, figures: LiveFigures) -> None:
        """Draw the newest figures."""
        elapsed = time.monotonic() - self._began
        if self._live is not None:
            self._live.update(self._panel(phase, figures, elapsed))
        elif phase != self._last_phase or elapsed - self._last_line >= PLAIN_LINE_EVERY_SECONDS:
            self._last_line, self._last_phase = elapsed, phase
            cells = "  ".join(f"{name} {value}" for name, value in _cells(figures))
            line = f"{elapsed:6.0f} s  {phase:<22} {cells}"
            self._console.print(line, highlight=False, soft_wrap=True)

    def _panel(self, phase: str, figures: LiveFigures, elapsed: float) -> Table:
        table = Table(title=f"rehearsal {self._run_id}", min_width=60, show_header=False)
        table.add_column(justify="right", style="bold")
        table.add_column()
        table.add_row("phase", Text(f"{phase}  {figures.spike}".strip(), style="cyan"))
        for name, value in _cells(figures):
            table.add_row(name, value)
        table.add_row("lag, last 60 s", sparkline(list(figures.lag_history)))
        table.add_row("elapsed", f"{elapsed:.0f} s")
        if figures.gap:
            table.add_row("not seen", Text(figures.gap, style="yellow"))
        return table


def sparkline(values: list[int]) -> str:
    """Return the values as a row of bars, scaled to their maximum."""
    top = max(values, default=0)
    if top <= 0:
        return _BARS[0] * len(values)
    return "".join(_BARS[min(7, value * 8 // (top + 1))] for value in values)


def _cells(figures: LiveFigures) -> list[tuple[str, str]]:
    replicas = figures.replicas
    wanted = "–" if replicas is None else f"{replicas.ready}/{replicas.spec} ready"
    return [
        ("lag", _number(figures.total_lag)),
        ("replicas", wanted),
        ("offered", _rate(figures.offered_per_second)),
        ("consumed", _rate(figures.consumed_per_second)),
    ]


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _rate(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}/s"
