"""Which candidates go on, and which knobs decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import numpy as np
import pytest
from tests.fakes.questions import P99, question

from lagbench.core.advice.candidates import Draft, Space
from lagbench.core.advice.front import front_of, importance_of, knee_of
from lagbench.core.advice.job import KEPT, Job, Outcome
from lagbench.core.advice.judge import COST, Judge
from lagbench.core.advice.model import Candidate, Family, ScenarioResult
from lagbench.core.advice.race import Entry, Race, Table, excess_of, survivors
from lagbench.core.advice.robust import regrets
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.simulation.simulation_measures import Spread

LIMITS = PolicyLimits(1, 4, 500.0, "")


def table(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]],
    *,
    limit: float = 10.0,
    families: Sequence[Family] = (),
    knobs: Sequence[dict[str, int]] = (),
) -> Table:
    """Return a table of (costs, values); those with a value above the limit break the SLO."""
    given = [*families, *["lag"] * len(rows)]
    entries = [
        Entry(Draft(str(at), given[at], {}, knobs[at] if knobs else {}), LIMITS)  # type: ignore[arg-type]
        for at in range(len(rows))
    ]
    values = np.array([one for _, one in rows], dtype=float)
    holding = (values <= limit).all(axis=1)
    costs = np.array([one for one, _ in rows], dtype=float)
    return Table(entries, costs, values, (values > limit).mean(axis=1) > 0.5, holding)


def names(entries: Sequence[Entry]) -> list[str]:
    """Return the names of the drafts."""
    return [one.draft.name for one in entries]


def test_excess_is_the_share_above_the_cheapest_with_no_more_lag() -> None:
    """The second is beaten by the first; the third pays for less lag, so nothing beats it."""
    found = excess_of(np.array([10.0, 12.0, 30.0]), np.array([5.0, 6.0, 1.0]))

    assert found.tolist() == pytest.approx([0, 0.2, 0])


@pytest.mark.parametrize(
    ("rows", "families", "expected"),
    [
        ([([1, 1], [5, 5]), ([2, 2], [6, 6]), ([3, 3], [1, 1])], (), ["0", "2"]),
        ([([1, 1], [5, 5]), ([1, 1], [5, 5]), ([3, 3], [6, 6])], (), ["0", "2"]),
        ([([9, 9], [50, 50]), ([1, 1], [5, 5]), ([2, 2], [4, 4])], ("present",), ["0", "1", "2"]),
        ([([1, 1], [inf, inf]), ([2, 2], [5, 5]), ([3, 3], [4, 4])], (), ["1", "2"]),
    ],
    ids=["beaten", "twin", "present stays", "never done"],
)
def test_who_goes_on(
    rows: Sequence[tuple[Sequence[float], Sequence[float]]],
    families: Sequence[Family],
    expected: list[str],
) -> None:
    """Two of three, and who is never dropped."""
    assert names(survivors(table(rows, families=families), 2)) == expected


def test_those_next_in_line_follow_when_a_rare_draw_breaks_the_cheapest() -> None:
    """The twenty cheapest of forty hold in the first two draws; twelve that hold are looked for."""
    asked = question(budget=8, draws=(2, 4))
    drafts = [one for one in Space(question(budget=300)).drafts() if one.family == "lag"][:40]
    place_of = {one.name: at for at, one in enumerate(drafts)}

    def evaluate(jobs: Sequence[Job]) -> Iterator[Outcome]:
        for job in jobs:
            rows = []
            for draw in range(job.first_draw, job.first_draw + job.draws):
                kept: dict[str, float | None] = dict.fromkeys(KEPT, 0.0)
                kept[COST] = 10.0 + place_of[job.candidate]
                kept[P99] = 90.0 if draw > 1 and place_of[job.candidate] < 20 else 5.0
                rows.append(tuple(kept.values()))
            yield Outcome(job.key, tuple(rows))

    race = Race(Judge(asked), list(asked.places.values()), evaluate)
    _, last = race.run(drafts)

    held = [
        place_of[one.draft.name]
        for one, holds in zip(last.entries, last.holding, strict=True)
        if holds
    ]
    assert held[:12] == [*range(20, 32)]


def test_the_regret_is_that_of_the_worst_draw_among_those_that_hold() -> None:
    """The cheapest of a draw need not be the cheapest of the other; who breaks the SLO has none."""
    found = table([([10, 20], [1, 1]), ([15, 16], [1, 1]), ([1, 1], [50, 50])])

    assert regrets(found, [True, True, False]) == [0.25, 0.5, None]


def test_the_knob_that_decides_explains_the_variance() -> None:
    """One knob sets the value, another the cost, a third nothing."""
    points = [(a, b, c) for a in range(4) for b in range(4) for c in range(4)]
    rows = [([10 * b, 10 * b], [a, a]) for a, b, _ in points]
    knobs = [{"value": a, "cost": b, "nothing": c} for a, b, c in points]

    found = {one.knob: one for one in importance_of(table(rows, knobs=knobs))}

    assert found["value"].share == pytest.approx(1)
    assert found["cost"].of_pod_minutes == pytest.approx(1)
    assert found["nothing"].share == found["nothing"].of_pod_minutes == 0


def candidate(name: str, cost: float, value: float | None, flips: float = 0) -> Candidate:
    """Return a candidate that was judged on one scenario."""
    values = Spread(None, None, None, 2) if value is None else Spread(value, value, value)
    result = ScenarioResult(
        scenario="short",
        draws=2,
        slo_value=values,
        real_range=None,
        pod_minutes=Spread(cost, cost, cost),
        flips=Spread(flips, flips, flips),
        measures={},
        broken={},
        holds=True,
    )
    return Candidate(
        name=name, family="lag", knobs={}, manifest={}, results=(result,), holds=True, regret=0
    )


def test_the_front_is_what_none_beats_and_its_knee_is_farthest_from_its_ends() -> None:
    """Of equal points that with fewer flips; one that was never done is on no front."""
    every = [
        candidate("cheap", 10, 100),
        candidate("knee", 12, 20),
        candidate("beaten", 13, 21),
        candidate("flips", 40, 10, flips=3),
        candidate("calm", 40, 10, flips=1),
        candidate("never", 1, None),
    ]
    front = front_of(every)

    assert [one.name for one in front] == ["cheap", "knee", "calm"]
    assert knee_of(front) == "knee"
    assert knee_of(front[:2]) is None
