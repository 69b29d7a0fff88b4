"""Judge the best candidates again under other assumptions, and measure the regret of each.

A candidate that falls over where another one holds is dropped. A variant in which none of the best
holds drops none: it is a limit of the advice, and its reasons name it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from lagbench.core.advice.job import Place
from lagbench.core.advice.judge import Judge
from lagbench.core.advice.model import Dropped, RobustRow
from lagbench.core.advice.race import Entry, Race, Table
from lagbench.core.measures.model import Reals
from lagbench.core.scenario.message_costs import scaled_cost
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.simulated_world import SimulatedEnvironment

_START_SECONDS = (1.0, 15.0, 60.0)
_OTHER_SEEDS = 4
DRAWS = 5


def variants(place: Place) -> Iterator[tuple[str, Place]]:
    """Yield other assumptions about pods, work and keys, each with its name."""
    around, scenario, consumer = place.environment, place.scenario, place.scenario.consumer
    for seconds in _START_SECONDS:
        name = f"pod start {seconds:g} s"
        yield name, _place(place, name, around=replace(around, start_up_seconds=seconds))
    for sign, factor in (("+", 1.2), ("-", 0.8)):
        work = {
            "process_ms": scaled_cost(consumer.process_ms, factor),
            "cpu_ms": consumer.cpu_ms * factor,
        }
        changed = consumer.model_copy(update=work)
        name = f"process_ms {sign}20 %"
        yield name, _place(place, name, scenario.model_copy(update={"consumer": changed}))
    if scenario.payload is not None:  # its samples place the keys
        return
    for step in (0.2, -0.2):
        skew = scenario.keys.zipf_s + step
        if skew >= 0:
            keys = scenario.keys.model_copy(update={"zipf_s": round(skew, 6)})
            name = f"zipf_s {skew:.2g}"
            yield name, _place(place, name, scenario.model_copy(update={"keys": keys}))
    for number in range(1, 1 + _OTHER_SEEDS):
        name = f"seed {scenario.seed + number}"
        yield (
            name,
            _place(place, name, scenario.model_copy(update={"seed": scenario.seed + number})),
        )


def _place(
    place: Place,
    name: str,
    scenario: Scenario | None = None,
    around: SimulatedEnvironment | None = None,
) -> Place:
    return replace(
        place,
        name=f"{place.name}, {name}",
        scenario=scenario or place.scenario,
        environment=around or place.environment,
    )


def judge_again(
    race: Race, judge: Judge, places: Sequence[Place], entries: Sequence[Entry]
) -> tuple[list[RobustRow], list[Dropped], list[str]]:
    """Return the rows of ``entries`` (the best ones), those that fall over, and the limits.

    Here an SLO must hold with each draw, without the margin: the assumptions are extremes.
    """
    other = [(place, name, changed) for place in places for name, changed in variants(place)]
    race.extend(entries, [changed for _, _, changed in other], DRAWS)
    rows: list[RobustRow] = []
    fallen: dict[str, list[str]] = {}
    shown: dict[tuple[str, str], str] = {}  # of candidate and variant, the first SLO that broke
    limits: list[str] = []
    asked = judge.question.slos
    for place, name, changed in other:
        of_variant = []
        for entry in entries:
            values = judge.values(entry.rows[changed.name], changed, entry.limits)
            worst = values.max(axis=0)
            broken = [
                "never" if most == inf else slo.text(float(most))
                for slo, most in zip(asked, worst, strict=True)
                if most > slo.limit
            ]
            first = float(worst[0])
            of_variant.append(
                RobustRow(
                    candidate=entry.draft.name,
                    variant=name,
                    scenario=place.scenario.name,
                    value=None if first == inf else first,
                    holds=not broken,
                )
            )
            if broken:
                shown[entry.draft.name, name] = broken[0]
        rows += of_variant
        if not any(row.holds for row in of_variant):
            limits.append(f"{place.scenario.name}: with {name} none of the best holds every SLO")
            continue
        for row in of_variant:
            if not row.holds:
                text = f"{name} ({shown[row.candidate, name]})"
                fallen.setdefault(row.candidate, []).append(text)
    dropped = [
        Dropped(candidate=name, reason=f"falls over with {', '.join(reasons)}")
        for name, reasons in fallen.items()
    ]
    return rows, dropped, limits


def regrets(table: Table, holds: Mapping[str, bool]) -> dict[str, float]:
    """Return of each that holds the largest share of pod-minutes above the cheapest of a draw.

    The cheapest on a draw is that of those that hold in all of them: a policy that is lucky on one
    draw does not measure the others.
    """
    names = [entry.draft.name for entry in table.entries]
    places = [at for at, name in enumerate(names) if holds[name]]
    if not places:
        return {}
    spent: Reals = table.costs[places]
    worst = (spent / np.maximum(spent.min(axis=0), 1e-9) - 1.0).max(axis=1)
    return {names[at]: float(one) for at, one in zip(places, worst, strict=True)}
