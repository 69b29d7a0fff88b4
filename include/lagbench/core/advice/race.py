"""Race the candidates: many with few draws, the better ones with more, all with the same draws.

A draw is the same phases and start-up times for every candidate, so two of them are compared draw
by draw. On one draw a candidate's *excess* is its share of pod-minutes above the cheapest that had
no more of the SLO's measure: 0 on the front of that draw. Those with the least mean excess stay,
and the cheapest that hold every SLO so far. A candidate goes when others beat it on the draws seen,
when it is the twin of one that stays, or when it breaks an SLO by more than the margin with most
draws; the best of these stay for the front's other side. The present policy, the rivals and the
fixed numbers of pods are never dropped. If too few hold in the end, the next in line follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf

import numpy as np
import numpy.typing as npt

from lagbench.core.advice.candidates import Draft
from lagbench.core.advice.job import KEPT, Job, Outcome, Place, new_job
from lagbench.core.advice.judge import COST, Judge, Row
from lagbench.core.measures.model import Reals
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits

Evaluate = Callable[[Sequence[Job]], Iterable[Outcome]]
"""Runs jobs anywhere, in any order: an outcome has its job's key."""
Flags = npt.NDArray[np.bool_]
_COST = KEPT.index(COST)
_DIVISORS = (8, 40, 200)
"""Of the budget: what is left after the first stage, the second, the third."""
_LEAST_LEFT = 12
_FAILING_SHARE = 0.25
"""Of those that stay, the most that break an SLO: the front has both sides of the limit."""
_KEPT_FAMILIES = ("fixed", "present", "rival")


@dataclass(frozen=True)
class Entry:
    """A candidate in the race, with a row for each draw by the place's name."""

    draft: Draft
    limits: PolicyLimits
    rows: dict[str, list[Row]] = field(default_factory=dict)


@dataclass(frozen=True)
class Table:
    """Entries with the same draws: [entry, place x draw]; values of the first SLO."""

    entries: Sequence[Entry]
    costs: Reals
    values: Reals
    failing: Flags  # [entry]: by more than the margin, at a place with most draws
    holding: Flags  # [entry]: with the margin, at each place with every draw

    @property
    def excess(self) -> Reals:
        """Return each entry's mean excess over the draws; infinite: never a finite value."""
        draws = zip(self.costs.T, self.values.T, strict=True)
        found = np.array([excess_of(cost, value) for cost, value in draws]).T
        return np.where(np.isinf(self.values).any(axis=1), inf, found.mean(axis=1))


class Race:
    """The stages over fixed places; ``simulations`` counts what was asked for."""

    def __init__(self, judge: Judge, places: Sequence[Place], evaluate: Evaluate) -> None:
        """Begin without any outcome."""
        self.judge, self.places, self._evaluate = judge, places, evaluate
        self.simulations = 0

    def run(self, drafts: Sequence[Draft]) -> tuple[Table, Table]:
        """Return the table of the first stage, and that of those left after the last one."""
        question, entries = self.judge.question, list[Entry]()
        for one in drafts:
            policy = Policy.read(one.manifest, where=one.name, kubernetes=question.version)
            entries.append(Entry(one, policy.limits))
        tables = list[Table]()
        for number, draws in enumerate(question.draws):
            if tables:
                entries = survivors(tables[-1], left_after(number - 1, question.budget))
            self.extend(entries, self.places, draws)
            tables.append(self.table(entries, self.places))
        *_, last = tables
        waiting = next_in_line(tables[-2], entries) if len(tables) > 1 else []
        while waiting and sum(map(_is_found, last.entries, last.holding)) < _LEAST_LEFT:
            entries = [*entries, *waiting[:_LEAST_LEFT]]
            del waiting[:_LEAST_LEFT]
            self.extend(entries, self.places, draws)
            last = self.table(entries, self.places)
        return tables[0], last

    def extend(self, entries: Sequence[Entry], places: Sequence[Place], draws: int) -> None:
        """Simulate the draws up to ``draws`` that an entry has not seen."""
        version = self.judge.question.version
        waiting: dict[str, list[list[Row]]] = {}  # a rival may be the present policy
        jobs = []
        for entry in entries:
            for place in places:
                rows = entry.rows.setdefault(place.name, [])
                seen = len(rows)
                if seen >= draws:
                    continue
                draft = entry.draft
                job = new_job(draft.name, draft.manifest, place, range(seen, draws), version)
                if job.key not in waiting:
                    jobs.append(job)
                waiting.setdefault(job.key, []).append(rows)
                self.simulations += draws - seen
        for outcome in self._evaluate(jobs):
            for rows in waiting[outcome.key]:
                rows.extend(outcome.rows)

    def table(self, entries: Sequence[Entry], places: Sequence[Place]) -> Table:
        """Return the entries' costs and values at all places."""
        judge, slos = self.judge, self.judge.question.slos
        limits = np.array([slo.limit + judge.margin(slo) for slo in slos])
        rows_of_costs, rows_of_values, failing, holding = [], [], [], []
        for entry in entries:
            every = [judge.values(entry.rows[p.name], p, entry.limits) for p in places]
            rows_of_costs.append([row[_COST] for p in places for row in entry.rows[p.name]])
            rows_of_values.append(np.concatenate([values[:, 0] for values in every]))
            failing.append(any((v > limits).any(axis=1).mean() > 0.5 for v in every))
            holding.append(all(map(judge.holds, every)))
        spent, found = np.array(rows_of_costs, dtype=np.float64), np.array(rows_of_values)
        return Table(entries, spent, found, np.array(failing), np.array(holding))


def left_after(stage: int, budget: int) -> int:
    """Return how many candidates stay after a stage, besides those that are never dropped."""
    return max(_LEAST_LEFT, ceil(budget / _DIVISORS[min(stage, len(_DIVISORS) - 1)]))


def excess_of(cost: Reals, value: Reals) -> Reals:
    """Return the share of cost above the cheapest entry with no higher value, on one draw."""
    order = np.lexsort((cost, value))
    cheapest = np.minimum.accumulate(cost[order])
    found = np.empty(len(cost))
    found[order] = cost[order] / np.maximum(cheapest, 1e-9) - 1.0
    return found


def survivors(table: Table, count: int) -> list[Entry]:
    """Return those that stay, in the order of the table: ``count``, and those never dropped.

    Half of the seats go to the cheapest that hold so far, the others to the least excess.
    """
    excess, mean_cost = table.excess, table.costs.mean(axis=1)
    chosen = {at for at, entry in enumerate(table.entries) if entry.draft.family in _KEPT_FAMILIES}
    twins = {_point(table, at) for at in chosen}

    def seat(order: Reals, most: int, may: Flags) -> None:
        for at in np.argsort(order, kind="stable").tolist():
            point = _point(table, at)
            if not most:
                return
            if may[at] and order[at] < inf and at not in chosen and point not in twins:
                chosen.add(at)
                twins.add(point)
                most -= 1

    before = len(chosen)
    seat(mean_cost, count // 2, table.holding)
    seat(excess, int(count * _FAILING_SHARE), table.failing)
    seat(excess, count - (len(chosen) - before), ~table.failing)
    return [table.entries[at] for at in sorted(chosen)]


def next_in_line(table: Table, chosen: Sequence[Entry]) -> list[Entry]:
    """Return those that held so far and did not stay, the cheapest first.

    The cheapest break in a rare draw: these take their seats when too few hold in the end.
    """
    names = {entry.draft.name for entry in chosen}
    seen = {_point(table, at) for at, one in enumerate(table.entries) if one.draft.name in names}
    found = list[Entry]()
    for at in np.argsort(table.costs.mean(axis=1), kind="stable").tolist():
        point = _point(table, at)
        if point not in seen and _is_found(table.entries[at], table.holding[at]):
            seen.add(point)
            found.append(table.entries[at])
    return found


def _is_found(entry: Entry, holds: bool) -> bool:
    """Return whether the search found it, and anybody may be advised it."""
    return bool(holds) and entry.draft.family not in (*_KEPT_FAMILIES, "cron")


def _point(table: Table, at: int) -> bytes:
    """Return what two candidates have in common that no draw distinguishes."""
    point: bytes = table.costs[at].tobytes() + table.values[at].tobytes()
    return point
