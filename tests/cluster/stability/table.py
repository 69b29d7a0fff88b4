"""Recorded answers as a Markdown table: per column the three phases, the middle one first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from tests.cluster.stability.columns import COLUMNS, PHASES, Column
from tests.cluster.stability.histories import wanted
from tests.cluster.stability.score import Score, gap_of, score, sync_distance_seconds

_HEAD = (
    "| controller, policy | changes | reversals | first change (s) | highest "
    "| pod-seconds too many | too few |\n|---|---|---|---|---|---|---|"
)
_PAIRS = (("keda-calm", "own-calm"), ("keda-hasty", "own-hasty"))


def table(recorded: dict[str, Any]) -> str:
    """Return the section of one history."""
    lags: list[int] = recorded["lags"]
    wishes = [wanted(lag) for lag in lags]
    rise = next((s for s, wish in enumerate(wishes) if wish > wishes[0]), 0)
    lines = [f"## {recorded['history']}", "", _HEAD]
    for column in COLUMNS:
        scores = [
            score(recorded["tracks"][name], lags, change_from=rise) for name in column.objects
        ]
        lines.append(_row(column, scores))
    lines.append("")
    for one, other in _PAIRS:
        lines += [f"* {_pair(recorded, lags, one, other)}", f"* {_among(recorded, lags, one)}"]
    lines.append(f"* The latest commit came {recorded['latest_commit_seconds']} s late.")
    return "\n".join(lines) + "\n"


def _pair(recorded: dict[str, Any], lags: Sequence[int], one: str, other: str) -> str:
    """Return how far and how long two columns differed, phase by phase."""
    texts = []
    for phase in range(PHASES):
        first, second = (recorded["tracks"][f"{name}-{phase}"] for name in (one, other))
        gap = gap_of(first, second, len(lags))
        looked = sync_distance_seconds(first, second)
        texts.append(
            f"{gap.seconds:.1f} s (by {gap.mean_replicas:.2f} on average; syncs "
            f"{'?' if looked is None else f'{looked:.1f}'} s apart)"
        )
    return f"{one} and {other} differed for {', '.join(texts)}."


def _among(recorded: dict[str, Any], lags: Sequence[int], name: str) -> str:
    """Return how far a column's own objects, which look at other instants, differed."""
    tracks = [recorded["tracks"][f"{name}-{phase}"] for phase in range(PHASES)]
    gaps = [gap_of(one, other, len(lags)) for one, other in combinations(tracks, 2)]
    reported = ", ".join(f"{gap.seconds:.1f} s (by {gap.mean_replicas:.2f})" for gap in gaps)
    return f"{name}'s own three differed from each other for {reported}."


def _row(column: Column, scores: Sequence[Score]) -> str:
    firsts = [s.first_change_seconds for s in scores if s.first_change_seconds is not None]
    cells = [
        column.name,
        _spread([s.changes for s in scores]),
        _spread([s.reversals for s in scores]),
        _spread(firsts) if firsts else "never",
        _spread([s.highest for s in scores]),
        _spread([s.over_pod_seconds for s in scores]),
        _spread([s.under_pod_seconds for s in scores]),
    ]
    return f"| {' | '.join(cells)} |"


def _spread(values: Sequence[float]) -> str:
    """Return the middle value and, where they differ, the range."""
    low, *_, high = ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    text = f"{middle:.0f}"
    return text if f"{low:.0f}" == f"{high:.0f}" else f"{text} ({low:.0f}–{high:.0f})"
