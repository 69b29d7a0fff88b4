"""Judge the best candidates again under other assumptions, and measure the regret of each.

A candidate that falls over where one of about its cost holds is dropped. A variant in which none of
them holds drops none: it is a limit of the advice, and its reasons name it, with what a dearer one
would need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from lagbench.core.advice.job import Place
from lagbench.core.advice.model import Dropped, RobustRow
from lagbench.core.advice.race import Entry, Race, Table
from lagbench.core.scenario.message_costs import scaled_cost
from lagbench.core.scenario.scenario import Scenario

_START_SECONDS = (1.0, 15.0, 60.0)
_OTHER_SEEDS = 4
DRAWS = 5


def variants(place: Place) -> Iterator[tuple[str, Place]]:
    """Yield other assumptions about pods, work and keys, each with its name."""
    around, scenario = place.environment, place.scenario
    for seconds in _START_SECONDS:
        name, changed = f"pod start {seconds:g} s", replace(around, start_up_seconds=seconds)
        yield name, replace(place, name=f"{place.name}, {name}", environment=changed)
    for name, update in _of_scenario(scenario):
        other = scenario.model_copy(update=update)
        yield name, replace(place, name=f"{place.name}, {name}", scenario=other)


def _of_scenario(scenario: Scenario) -> Iterator[tuple[str, dict[str, Any]]]:
    consumer = scenario.consumer
    for sign, factor in (("+", 1.2), ("-", 0.8)):
        process_ms = scaled_cost(consumer.process_ms, factor)
        work = {"process_ms": process_ms, "cpu_ms": consumer.cpu_ms * factor}
        yield f"process_ms {sign}20 %", {"consumer": consumer.model_copy(update=work)}
    if scenario.payload is not None:  # its samples place the keys
        return
    for step in (0.2, -0.2):
        skew = scenario.keys.zipf_s + step
        if skew >= 0:
            keys = scenario.keys.model_copy(update={"zipf_s": round(skew, 6)})
            yield f"zipf_s {skew:.2g}", {"keys": keys}
    for seed in range(scenario.seed + 1, scenario.seed + 1 + _OTHER_SEEDS):
        yield f"seed {seed}", {"seed": seed}


def judge_again(
    race: Race, entries: Sequence[Entry], dearer: Mapping[str, float]
) -> tuple[list[RobustRow], list[Dropped], list[str]]:
    """Return the rows of ``entries`` (the best ones), those that fall over, and the limits.

    Here an SLO must hold with each draw, without the margin: the assumptions are extremes.

    :param dearer: regret of those that are too dear to drop others, least first.
    """
    other = [(place, name, changed) for place in race.places for name, changed in variants(place)]
    race.extend(entries, [changed for _, _, changed in other], DRAWS)
    rows: list[RobustRow] = []
    fallen: dict[str, list[str]] = {}
    limits: list[str] = []
    judge, asked = race.judge, race.judge.question.slos
    for place, name, changed in other:
        of_variant, shown = list[RobustRow](), dict[str, str]()  # the first SLO that broke
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
                shown[entry.draft.name] = broken[0]
        rows += of_variant
        if all(entry.draft.name in shown or entry.draft.name in dearer for entry in entries):
            limit = f"{place.scenario.name}: with {name} none of the best holds every SLO"
            held = next((one for one in dearer if one not in shown), None)
            but = f", but {held} does for up to {dearer[held]:.0%} more pod-minutes" if held else ""
            limits.append(limit + but)
            continue
        for candidate, text in shown.items():
            fallen.setdefault(candidate, []).append(f"{name} ({text})")
    dropped = [
        Dropped(candidate=name, reason=f"falls over with {', '.join(reasons)}")
        for name, reasons in fallen.items()
    ]
    return rows, dropped, limits


def regrets(table: Table, able: Sequence[bool]) -> list[float | None]:
    """Return of each that is able the largest share of pod-minutes above the cheapest of a draw.

    The cheapest on a draw is that of those that hold in all of them: a policy that is lucky on one
    draw does not measure the others.
    """
    cheapest = table.costs[able].min(axis=0, initial=inf)
    worst = (table.costs / np.maximum(cheapest, 1e-9) - 1.0).max(axis=1).tolist()
    return [one if is_able else None for one, is_able in zip(worst, able, strict=True)]
