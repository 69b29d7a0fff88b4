"""What the Dag adds to a run, taken from the phases of the newest finished run.

Wall: from the first phase's start to the last phase's end. In phases: the time in which at least
one phase was going on, so that phases side by side count once. Overhead is the rest: the scheduler
between tasks, the start of each task's process and its imports. Not in it: what lies before the
first phase (the Dag run's own start and plan_cell).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lagbench.adapters.runs.run_folder import RunFolder, list_runs, runs_root
from tests.benchmarks.figures import Figure, at_most

NAME = "dag"
AIM_SECONDS = 60.0
WAITING_PHASES = frozenset(
    {
        "group_stable",
        "lag_builds_up",
        "traffic_finished",
        "lag_at_rest",
        "replicas_settled",
        "lag_drained",
        "group_settled",
    }
)
# A run that broke off has been cleaned up, too, but was never judged.
_NEEDED_PHASES = frozenset({"fence_run", "verdict", "remove_workloads"})
Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """One phase from start to end, unix ns."""

    name: str
    from_at: int
    until_at: int


def measure(_scale: float) -> Iterator[Figure]:
    """Yield the overhead of the newest finished run and the share of its waiting phases."""
    folder = newest_finished()
    if folder is None:
        why = f"no finished run in {runs_root().name}/; make rehearse makes one"
        yield Figure("Dag overhead", None, "s", at_most(AIM_SECONDS), why)
        return
    spans = read_phases(folder.path / "phases.jsonl")
    from_at = min(span.from_at for span in spans)
    until_at = max(span.until_at for span in spans)
    wall = (until_at - from_at) / 1e9
    in_phases = covered_seconds([(span.from_at, span.until_at) for span in spans])
    waiting = covered_seconds(
        [(span.from_at, span.until_at) for span in spans if span.name in WAITING_PHASES]
    )
    yield Figure("Dag wall", wall, "s", None, f"{folder.run_id}, {len(spans)} phases")
    yield Figure("in phases", in_phases, "s")
    note = "wall - time in phases"
    yield Figure("Dag overhead", wall - in_phases, "s", at_most(AIM_SECONDS), note)
    yield Figure("waiting phases", 100 * waiting / wall, "% of wall", None, f"{waiting:.1f} s")


def newest_finished() -> RunFolder | None:
    """Return the newest run that was judged and cleaned up."""
    root = runs_root()
    for summary in reversed(list_runs(root)):
        folder = RunFolder(root / summary.run_id)
        path = folder.path / "phases.jsonl"
        if path.is_file() and {span.name for span in read_phases(path)} >= _NEEDED_PHASES:
            return folder
    return None


def read_phases(path: Path) -> list[PhaseSpan]:
    """Return the phases that have ended; a retry makes another one of the same name."""
    begun: dict[str, int] = {}
    spans = []
    for line in path.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        if entry["state"] == "started":
            begun.setdefault(entry["name"], entry["at"])
        elif entry["name"] in begun:
            spans.append(PhaseSpan(entry["name"], begun.pop(entry["name"]), entry["at"]))
    return spans


def covered_seconds(spans: list[Span]) -> float:
    """Return the length of the union of ``spans`` in seconds."""
    covered, reached = 0, 0
    for from_at, until_at in sorted(spans):
        covered += max(0, until_at - max(from_at, reached))
        reached = max(reached, until_at)
    return covered / 1e9
