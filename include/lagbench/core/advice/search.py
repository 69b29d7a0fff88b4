"""Answer a question: bounds, race, fewest changes, front, robustness, and the pick with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from lagbench.core.advice.bounds import bounds_of
from lagbench.core.advice.candidates import DOWN_WINDOW, Draft, Space
from lagbench.core.advice.changes import with_fewest_changes
from lagbench.core.advice.front import front_of, importance_of, knee_of
from lagbench.core.advice.job import KEPT, evaluate_job, new_job
from lagbench.core.advice.judge import Judge
from lagbench.core.advice.model import (
    Advice,
    AskedSlo,
    Candidate,
    Dropped,
    Family,
    Margin,
    Searched,
)
from lagbench.core.advice.question import FLIPS, Question, check_question, refusals
from lagbench.core.advice.race import Entry, Evaluate, Race, Table, left_after
from lagbench.core.advice.robust import DRAWS, judge_again, regrets
from lagbench.core.object_schema import value_at
from lagbench.core.policy.policy import Policy, check_fit
from lagbench.core.policy.review.policy_review import review_policy
from lagbench.core.simulation.simulate import left_out
from lagbench.errors import WrongInput

_FINALISTS = 10
_VARIANTS = 11  # of ``robust``, at most
_LINES = 3  # of a finalist that are taken back with all draws, about
_PRICE = 0.2
"""Regret above the least one up to which a policy may be the pick, for more reserve."""
_NEAR = 0.02
"""Smaller differences of regret do not count: the plainer policy is advised."""
_PLAINNESS = ("present", "fixed", "lag", "rival", "cron", "backlog-slo", "lag-scaler")
"""The present policy first: a change that saves nothing is none to advise. A policy that needs more
than KEDA comes last, and has no price beyond that: regrets of 0, 0.02, 0.05 and 0.1 for it gave the
same pick to 49 questions on 15 scenarios (400 and 1,500 candidates).
"""
_NEEDS = {
    "lag-scaler": "it needs the lag scaler beside KEDA (docs/lag-scaler.md)",
    "backlog-slo": (
        "it needs a Prometheus with kafka_exporter's metrics, which are read at least twice in "
        "{rateSeconds} s"
    ),
    "cron": "it needs a load that comes at these hours; the hours count from the stream's start",
}


def bounds_only(question: Question) -> Advice:
    """Return what can be said without a search, in under a second.

    The outcome is ``advice`` without a pick while a search may find one.

    :raises WrongInput: the question contradicts itself.
    """
    check_question(question)
    scenarios = tuple(one.name for one in question.scenarios)
    first, *also = question.slos
    refused = tuple(refusals(question))
    common: dict[str, Any] = {
        "question": question.key,
        "slo": first,
        "also": tuple(also),
        "scenarios": scenarios,
        "seeds": question.draws[-1],
        "kubernetes": question.version,
        "left_out": tuple(sorted({part for one in question.scenarios for part in left_out(one)})),
    }
    if refused:
        return Advice(outcome="not_enough_data", reasons=refused, bounds=(), **common)
    space = Space(question)
    every_pod = space.fixed(question.most_replicas)
    if space.cron_windows:  # which pod shares the hottest partition is not known
        common["left_out"] = (
            f"cron with fewer pods than the hottest needs, {space.hottest_needs}",
        )
    bounds = bounds_of(question, every_pod.manifest)
    broken = tuple(f"{one.scenario}: {one.text}" for one in bounds if one.is_broken)
    outcome = "no_policy" if broken else "advice"
    return Advice(outcome=outcome, reasons=broken, bounds=tuple(bounds), **common)


def search(question: Question, evaluate: Evaluate) -> Advice:
    """Return the advice; deterministic, wherever the jobs run.

    :raises WrongInput: the question contradicts itself.
    """
    begun = bounds_only(question)
    if begun.outcome != "advice":
        return begun
    given, unfit = _given(question)
    asked = Judge(question)
    question = replace(question, slos=[*question.slos, *_calm(question, given, evaluate)])
    judge, places, space = Judge(question), list(question.places.values()), Space(question)
    race, drafts = Race(judge, places, evaluate), [*given, *space.drafts()]
    first, last = race.run(drafts)
    finalists = _finalists(_judged(race, last, space), last)
    last, finalists = _plainer(race, last, finalists)
    searched = _judged(race, last, space)
    freer = [
        one
        for one, entry in zip(searched, last.entries, strict=True)
        if all(asked.holds(asked.values(entry.rows[p.name], p, entry.limits)) for p in places)
    ]
    front = front_of(one for one in searched if one.family not in ("present", "rival"))
    dearer = _dearer(searched, finalists)
    rows, fallen, limits = judge_again(race, finalists, dearer) if finalists else ([], [], [])
    answer = begun.model_copy(
        update={
            "also": tuple(question.slos[1:]),
            "front": front,
            "knee": knee_of(front),
            "present": next((one for one in searched if one.family == "present"), None),
            "rivals": tuple(one for one in searched if one.family == "rival"),
            "importance": importance_of(first),
            "robust": tuple(rows),
            "searched": Searched(candidates=len(drafts), simulations=race.simulations),
            "dropped": tuple(unfit),
        }
    )
    if not finalists:
        reasons = tuple(_why_none(judge, searched))
        return answer.model_copy(update={"outcome": "no_policy", "reasons": reasons})
    able = {entry.draft.name for entry in finalists} - dearer.keys()
    names = able - {one.candidate for one in fallen}
    if not names:  # each falls over somewhere
        failed = Counter(row.candidate for row in rows if not row.holds)
        names = {one for one in able if failed[one] == min(failed[other] for other in able)}
    ranked = _ranked([one for one in searched if one.name in names])
    pick, out = ranked[0], {one.candidate for one in fallen}
    others = [one for one in searched if one.regret is not None and one.name not in out]
    limits += [
        f"{one.candidate} itself {one.reason}" for one in fallen if one.candidate == pick.name
    ]
    fallen = [one for one in fallen if one.candidate not in names]
    return answer.model_copy(
        update={
            "pick": pick,
            "runner_up": _runner_up(pick, answer.present, [*ranked[1:], *_ranked(others)]),
            "dropped": (*unfit, *fallen),
            "margin": _margin(judge, pick),
            "reasons": tuple(_reasons(pick, searched, freer, space.hottest_needs, limits)),
        }
    )


def _judged(race: Race, table: Table, space: Space) -> list[Candidate]:
    """Return the entries with what they have shown, and their regret."""
    judge, places = race.judge, race.places
    able = regrets(table, _eligible(judge.question, table, space.down_windows[0]))
    return [
        Candidate(
            name=entry.draft.name,
            family=entry.draft.family,
            knobs=dict(entry.draft.knobs),
            manifest=dict(entry.draft.manifest),
            results=tuple(judge.result(entry.rows[p.name], p, entry.limits) for p in places),
            holds=bool(holds),
            regret=regret,
        )
        for entry, holds, regret in zip(table.entries, table.holding, able, strict=True)
    ]


def _plainer(race: Race, table: Table, finalists: Sequence[Entry]) -> tuple[Table, list[Entry]]:
    """Return both with the finalists' fewest changes; two that become the same are one."""
    given = {id(one): one for one in table.entries}
    given |= {
        id(old): new
        for old, new in zip(finalists, with_fewest_changes(race, finalists), strict=True)
    }
    entries = list[Entry]()
    for one in given.values():
        is_given = one.draft.family in ("present", "rival")  # a rival may be the present policy
        if is_given or all(one.draft.manifest != other.draft.manifest for other in entries):
            entries.append(one)
    best = [given[id(one)].draft.manifest for one in finalists]
    return race.table(entries, race.places), [e for e in entries if e.draft.manifest in best]


def expected_simulations(question: Question) -> int:
    """Return about how many draws a search simulates, for those who wait for it."""
    left, seen, found = question.budget, 0, 0
    for stage, draws in enumerate(question.draws):
        found += left * (draws - seen)
        left, seen = left_after(stage, question.budget), draws
    found += _FINALISTS * (_VARIANTS * DRAWS + _LINES * question.draws[-1])
    return found * len(question.scenarios)


def _given(question: Question) -> tuple[list[Draft], list[Dropped]]:
    """Return the present policy and the rivals that can be simulated, and why others cannot."""
    given: list[tuple[str, Family, Policy]] = []
    if question.present is not None:
        given.append(("present", "present", question.present))
    given += [(name, "rival", policy) for name, policy in question.rivals.items()]
    drafts, unfit = list[Draft](), list[Dropped]()
    for name, family, policy in given:
        try:
            for place in question.places.values():
                check_fit(place.scenario, policy)
                evaluate_job(new_job(name, policy.manifest, place, range(1), question.version))
        except WrongInput as error:
            why = str(error).removeprefix(f"{error.where}: ")
            unfit.append(Dropped(candidate=name, reason=f"does not fit: {why}"))
            continue
        drafts.append(Draft(name, family, policy.manifest))
    return drafts, unfit


def _calm(question: Question, given: Sequence[Draft], evaluate: Evaluate) -> Iterator[AskedSlo]:
    """Yield the limit of flips that holds unless another one was asked.

    That of the scenarios, by which a run of the pick is judged; if they have none, what the
    present policy needs.
    """
    if any(slo.name == FLIPS for slo in question.slos):
        return
    limits = [one.slos.flips for one in question.scenarios if one.slos.flips is not None]
    if limits:
        yield AskedSlo(name=FLIPS, limit=min(limits))
        return
    jobs = [
        new_job(one.name, one.manifest, place, range(question.draws[-1]), question.version)
        for one in given
        if one.family == "present"
        for place in question.places.values()
    ]
    flips = [row[KEPT.index(FLIPS)] or 0 for found in evaluate(jobs) for row in found.rows]
    if flips:
        yield AskedSlo(name=FLIPS, limit=max(flips))


def _eligible(question: Question, table: Table, shortest: int) -> list[bool]:
    """Return which candidates hold and may be advised: ``policy check`` finds no error in them.

    A cron's hours are those of this load, so it is advised only to one who has such hours. A given
    policy keeps the bounds that were asked, and a rival has no scale-down window that the search
    would not choose.
    """
    may_cron = question.present is not None and any(
        one.type == "cron" for one in question.present.limits.of_triggers
    )

    def may(draft: Draft) -> bool:
        if draft.family == "cron":
            return may_cron
        window = value_at(draft.manifest, f"spec.advanced.{DOWN_WINDOW}")  # None: the longest
        return draft.family != "rival" or window is None or int(window) >= shortest

    return [
        bool(holds)
        and question.allows(entry.limits)
        and may(entry.draft)
        and review_policy(entry.draft.manifest, where=entry.draft.name).can_run
        for entry, holds in zip(table.entries, table.holding, strict=True)
    ]


def _finalists(searched: Sequence[Candidate], table: Table) -> list[Entry]:
    """Return the best: the cheapest, those with the most reserve for little more, the next ones."""
    known = [one for one in searched if one.regret is not None]
    every = sorted(known, key=lambda one: (one.regret or 0.0, one.name))
    able = [one for one in every if (one.regret or 0.0) <= (every[0].regret or 0.0) + _PRICE]
    names = [one.name for one in _ranked(able)[: _FINALISTS // 2]]
    by_reserve = sorted(able, key=lambda one: (one.slo_value or 0.0, one.name))
    names += [one.name for one in (*by_reserve, *every) if one.name not in names]
    best = set([*dict.fromkeys(names)][:_FINALISTS])
    return [entry for entry in table.entries if entry.draft.name in best]


def _dearer(searched: Sequence[Candidate], finalists: Sequence[Entry]) -> dict[str, float]:
    """Return the regret of the finalists that are too dear to be the pick, least first."""
    best = {entry.draft.name for entry in finalists}
    found = sorted((one.regret or 0.0, one.name) for one in searched if one.name in best)
    return {name: regret for regret, name in found if regret > found[0][0] + _PRICE}


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return them by regret in steps that matter, then the plainer, fewer flips, less lag."""
    least = min((one.regret or 0.0 for one in candidates), default=0.0)

    def rank(one: Candidate) -> tuple[Any, ...]:
        step = int(((one.regret or 0.0) - least) / _NEAR)
        plain = _PLAINNESS.index(one.family)
        return step, plain, one.flips or 0, one.regret or 0.0, one.slo_value or 0.0, one.name

    return sorted(candidates, key=rank)


def _runner_up(
    pick: Candidate, present: Candidate | None, others: Sequence[Candidate]
) -> Candidate | None:
    """Return the best that is another policy, not the same one with a neighbouring window.

    The present policy is none: it stands beside the pick anyway.
    """
    decisive = ("lagThreshold", "minReplicaCount", "backlogSeconds", "sustainSeconds")
    known = [one.manifest for one in (pick, present) if one is not None]
    others = [one for one in others if one.manifest not in known]
    for one in others:
        if one.family != pick.family or any(
            one.knobs.get(name) != pick.knobs.get(name) for name in decisive
        ):
            return one
    return next(iter(others), None)


def _margin(judge: Judge, pick: Candidate) -> Margin:
    slo = judge.question.slos[0]
    error = judge.question.error_of(slo.name)
    if error is None:
        text = "no residuals are known: as simulated"
        return Margin(slo=slo.name, value=None, text=text, runs=0)
    added = judge.margin(slo)
    shown = [slo.text(one.real_range[1]) for one in pick.results if one.real_range]
    text = (
        f"{error.runs} runs: a real one is up to {slo.text(added)} above the simulation of it in "
        f"95 of 100; the pick stays below {' and '.join(shown)}"
    )
    return Margin(slo=slo.name, value=added, text=text, runs=error.runs)


def _reasons(
    pick: Candidate,
    searched: Sequence[Candidate],
    freer: Sequence[Candidate],
    hottest_needs: int,
    limits: Sequence[str],
) -> Iterator[str]:
    """Yield the conditions of the advice; that it is cheaper, its numbers say.

    :param freer: those that hold every SLO which the question itself has.
    """
    most = value_at(pick.manifest, "spec.maxReplicaCount")
    if most is not None and int(most) < hottest_needs:
        text = "at the peak the one with the hottest partition keeps up from"
        yield f"at most {most} pods: {text} {hottest_needs} on, and what else it reads is drawn"
    if pick.family in _NEEDS:
        yield _NEEDS[pick.family].format(**pick.knobs)
    kinds = [one.manifest["kind"] for one in searched if one.family == "present"]
    if {*kinds} - {pick.manifest["kind"]}:
        yield f"the present {kinds[0]} has to go first: KEDA admits no second scaler"
    for one in review_policy(pick.manifest, where=pick.name).findings:
        if one.level == "warning":
            yield f"policy check warns of {one.field} = {one.value}: {one.happens}"
    if pick.flips:
        yield f"its replicas flip {pick.flips:g} times: --slo flips=0 requests a calm policy"
    crons = [one for one in searched if one.family == "cron" and one.holds]
    if cheaper := _cheaper(crons, pick):
        yield f"{cheaper}, if the load came at the same time each day"
    others = [one for one in freer if not one.holds and one.family != "cron"]
    if cheaper := _cheaper(others, pick):
        yield f"{cheaper}, if it might flip: --slo flips=N allows it"
    yield from limits


def _cheaper(candidates: Sequence[Candidate], pick: Candidate) -> str:
    """Name the cheapest if that is worth mentioning."""
    cost = pick.pod_minutes
    best = min(candidates, key=lambda one: one.pod_minutes or inf, default=None)
    if not cost or best is None or (best.pod_minutes or inf) >= cost * (1 - _NEAR):
        return ""
    flips = max(one.flips.high or 0.0 for one in best.results)
    text = f"{best.name} would need {1 - (best.pod_minutes or cost) / cost:.0%} fewer pod-minutes"
    return f"{text}, with up to {flips:g} flips" if flips else text


def _why_none(judge: Judge, searched: Sequence[Candidate]) -> Iterator[str]:
    """Say how near the candidates come to each limit."""
    yield f"none of the {len(searched)} candidates that were simulated longest can be advised"
    if cron := next((one.name for one in searched if one.holds and one.family == "cron"), None):
        yield f"{cron} would hold every SLO if the load came at the same time each day"
    are_held = True
    slos = judge.question.slos
    for slo in slos:
        tops = []
        for one in searched:
            found = [result.measures[slo.name] for result in one.results]
            known = [of.high for of in found if of.high is not None and not of.missing]
            if len(known) == len(found):
                tops.append(max(known))
        near, margin = min(tops, default=None), judge.margin(slo)
        are_held &= near is not None and near + margin <= slo.limit
        text = f"{slo.slo.title}: {slo.text(near)} at best, {slo.slo.threshold}"
        yield f"{text}, margin {slo.text(margin)}"
    if are_held and len(slos) > 1:
        yield "each of these limits can be held, but no candidate holds all of them together"
