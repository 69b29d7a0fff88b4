"""The front of cost against the SLO's measure, its knee, and which knobs decide."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from lagbench.core.advice.model import Candidate, Importance
from lagbench.core.advice.race import Table
from lagbench.core.measures.model import Reals

_LEAST_GROUP = 2


def front_of(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return those of which none is cheaper with no more of the SLO's measure, by cost.

    The worst draw counts, as it does for the SLO. Of equal points that with fewer flips stays.
    """
    known = [
        (one.pod_minutes, one.worst_value, one.flips or 0.0, one)
        for one in candidates
        if one.pod_minutes is not None and one.worst_value is not None
    ]
    found: list[Candidate] = []
    least = np.inf
    for _, value, _, one in sorted(known, key=lambda row: (*row[:3], row[3].name)):
        if value < least:
            found.append(one)
            least = value
    return tuple(found)


def knee_of(front: Sequence[Candidate]) -> str | None:
    """Return the point farthest below the line between the front's ends; None: fewer than three."""
    if len(front) < 3:
        return None
    points = np.array([(one.pod_minutes, one.worst_value) for one in front], dtype=np.float64)
    span = points[-1] - points[0]
    if not span.all():
        return None
    scaled = (points - points[0]) / span  # from (0, 0) to (1, 1); the value falls
    return front[int(np.argmax(scaled[:, 1] - scaled[:, 0]))].name


def importance_of(table: Table) -> tuple[Importance, ...]:
    """Return the share of variance that each knob alone explains, the most important first.

    Of the ranks, because a value that never came true has none else; what chance would explain is
    taken off. Over the candidates on lag in the first stage, where all knobs vary evenly.
    """
    places = [at for at, one in enumerate(table.entries) if one.draft.family == "lag"]
    if len(places) <= _LEAST_GROUP:
        return ()
    values = _ranks(np.where(np.isinf(table.values), 1e300, table.values)[places].mean(axis=1))
    spent = _ranks(table.costs[places].mean(axis=1))
    knobs = [table.entries[at].draft.knobs for at in places]
    found = []
    for name in dict.fromkeys(name for one in knobs for name in one):
        levels = [str(one.get(name)) for one in knobs]
        if len({*levels}) > 1:
            shares = (_explained(levels, values), _explained(levels, spent))
            found.append(Importance(knob=name, share=shares[0], of_pod_minutes=shares[1]))
    return tuple(sorted(found, key=lambda one: -one.share))


def _explained(levels: Sequence[str], values: Reals) -> float:
    """Return the first-order share: variance between the levels' means, of the whole."""
    groups: dict[str, list[float]] = defaultdict(list)
    for level, value in zip(levels, values.tolist(), strict=True):
        groups[level].append(value)
    whole = float(values.var()) * len(values)
    if whole == 0 or len(groups) >= len(values):
        return 0.0
    mean = float(values.mean())
    between = sum(len(one) * (float(np.mean(one)) - mean) ** 2 for one in groups.values())
    by_chance = (whole - between) / (len(values) - len(groups)) * (len(groups) - 1)
    return max(0.0, (between - by_chance) / whole)


def _ranks(values: Reals) -> Reals:
    """Return mid-ranks, from 0 to 1."""
    from scipy.stats import rankdata  # takes a second to load

    ranks: Reals = (rankdata(values) - 1) / max(1, len(values) - 1)
    return ranks
