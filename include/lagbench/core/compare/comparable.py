"""Decide whether two runs can be compared, and give each reason why not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lagbench.core.compare.cell_identity import (
    NOT_RUN,
    Environment,
    cell_id,
    files_by_content,
    flat,
    is_named,
)
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import WrongInput

_OF_THE_POLICY = {"allow_overscale"}
"""Scenario fields that only permit a policy: the policies are compared, so they may differ."""

DRAWN_FOR_PAIRS = ("seed", "hpa_sync_at_seconds")
"""Scenario fields that are the same within a pair, and differ between pairs."""

TARGET = "target"
"""Named as ``varied``, it permits runs of two targets, and so of another fidelity."""
_OF_A_TARGET = (
    "hpa_sync_at_seconds",  # no cluster can fix it
    "cluster",
    "versions.kafka-broker",
    "versions.java",
    "versions.keda",
    "versions.keda-rules",
)

_LONGEST_TEXT = 60


@dataclass(frozen=True)
class ComparedRun:
    """One run as a comparison sees it.

    ``policy`` and ``target`` are the digests of the policy's content and of the target's name,
    None if the manifest has none; ``verdict`` is None while the run has none.
    """

    run_id: str
    scenario: Scenario
    target: str | None
    environment: Environment
    verdict: Verdict | None
    measures: Measures
    policy: str | None = None
    created_at: int = 0

    @cached_property
    def load(self) -> str:
        """The digest that the runs of one scenario, target and fidelity share.

        Policies and seeds may differ, and phases of the HPA's sync if they are fixed.
        """
        phase = None if self.scenario.hpa_sync_at_seconds is None else 0.0
        return cell_id(
            self.scenario.model_copy(update={"seed": 0, "hpa_sync_at_seconds": phase}),
            policy_digest="",
            target_digest=self.target or "",
            fidelity=self.measures.fidelity,
        )


def comparable(
    first: ComparedRun,
    second: ComparedRun,
    *,
    varied: Collection[str] = (),
    measures: Collection[str] | None = None,
) -> list[str]:
    """Return each reason why the two runs cannot be compared; empty: they can.

    Policies may differ. A failed verdict is a result, and so is one that is undetermined only
    because a value lies too close to its limit; any other undetermined verdict is a gap, and so is
    a run that measured another load than planned.

    :param varied: what differs on purpose: scenario fields, e.g. ``consumer.balancer``, facts of
        the environment, or ``target``; a name covers the fields below it.
    :param measures: names of the compared measures; None: all.
    """
    reasons = []
    for run in (first, second):
        if run.verdict is None:
            reasons.append(f"{run.run_id} has no verdict yet")
        elif run.verdict.invalid:
            reasons.append(f"{run.run_id} is invalid: {run.verdict.invalid[0]}")
        elif why := run.verdict.why_no_result(measures):
            reasons.append(f"{run.run_id} gave no result: {why[0]}")
    if TARGET in varied:
        varied = (*varied, *_OF_A_TARGET)
    fidelities = (first.measures.fidelity, second.measures.fidelity)
    if fidelities[0] != fidelities[1] and TARGET not in varied:
        reasons.append(f"fidelity: {fidelities[0]} against {fidelities[1]}")
    if first.target != second.target and TARGET not in varied:
        reasons.append("another target: embedded, or another cluster (--vary target)")
    reasons += [
        f"scenario {name}: {_short(before)} against {_short(after)}"
        for name, before, after in _scenario_changes(first, second, varied)
    ]
    return reasons + first.environment.changes(second.environment, varied)


def _scenario_changes(
    first: ComparedRun, second: ComparedRun, varied: Collection[str]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield name and both values of each scenario field that differs and is not ``varied``."""
    left_out: dict[str, Any] = dict.fromkeys((NOT_RUN - {"seed"}) | _OF_THE_POLICY, True)
    left_out["second_group"] = dict.fromkeys(NOT_RUN, True)
    before, after = (
        flat(files_by_content(run.scenario.model_dump(mode="json", exclude=left_out)))
        for run in (first, second)
    )
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name) and not is_named(name, varied):
            yield name, before.get(name), after.get(name)


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


RunPair = tuple[ComparedRun, ComparedRun]


def side_names(pair: RunPair, varied: Collection[str]) -> tuple[str, str]:
    """Return the names of both sides by what differs: the policy, and the ``varied`` fields."""
    changed = list(_scenario_changes(*pair, DRAWN_FOR_PAIRS))
    is_other = pair[0].policy != pair[1].policy
    has_one_name = pair[0].measures.policy == pair[1].measures.policy  # of two files
    is_elsewhere = pair[0].target != pair[1].target
    is_other_sort = pair[0].measures.fidelity != pair[1].measures.fidelity
    names = []
    for side, run in enumerate(pair):
        policy = run.measures.policy
        place = run.measures.fidelity if is_other_sort else f"cluster {str(run.target)[:8]}"
        if is_other and has_one_name:
            policy += f" {str(run.policy)[:8]}"
        fields = [f"{name}={_short(values[side])}" for name, *values in changed]
        told = [place] * is_elsewhere + [policy] * (is_other or not varied)
        names.append(", ".join(told + fields))
    return names[0], names[1]


_SHOWN_REASONS = 8


def sides_by_policy(runs: Sequence[ComparedRun]) -> tuple[list[ComparedRun], list[ComparedRun]]:
    """Return the runs of the first run's policy, and those of the one other policy.

    :raises WrongInput: the runs are not of two policies.
    """
    by_policy: dict[str | None, list[ComparedRun]] = defaultdict(list)
    for run in runs:
        by_policy[run.policy].append(run)
    if len(by_policy) != 2:
        allowed = "runs of two policies, or two groups of runs with the word vs between them"
        value = ", ".join(sorted({run.measures.policy for run in runs}))
        raise WrongInput(where="compare", field="policies", value=value, allowed=allowed)
    first, second = by_policy.values()
    return first, second


def pairs_by_seed(
    first: Sequence[ComparedRun], second: Sequence[ComparedRun]
) -> tuple[RunPair, ...]:
    """Return a pair for each run: with several runs of one seed, in the order of their start.

    :raises WrongInput: a run has no partner with its seed.
    """
    sides = [_by_seed(side) for side in (first, second)]
    pairs = []
    for seed in sorted({*sides[0], *sides[1]}):
        before, after = (side.get(seed, []) for side in sides)
        if len(before) != len(after):
            raise WrongInput(
                where="compare",
                field=f"runs with seed {seed}",
                value=f"{len(before)} against {len(after)}",
                allowed="as many runs of each seed on both sides",
            )
        pairs += list(zip(before, after, strict=True))
    return tuple(sorted(pairs, key=lambda pair: min(run.created_at for run in pair)))


def pairs_of_one_cell(runs: Sequence[ComparedRun]) -> tuple[RunPair, ...]:
    """Return A/A pairs: two runs of each seed, in the order of their start.

    :raises WrongInput: a run has no partner with its seed.
    """
    sides: tuple[list[ComparedRun], list[ComparedRun]] = ([], [])
    for of_seed in _by_seed(runs).values():
        sides[0].extend(of_seed[::2])
        sides[1].extend(of_seed[1::2])
    return pairs_by_seed(*sides)


def require_comparable(pairs: Sequence[RunPair], *, varied: Collection[str] = ()) -> None:
    """Require that every run can be compared with every other, and that each side is one cell.

    Within a side only the seeds differ; between the sides also the policies and ``varied`` fields.

    :raises WrongInput: with each reason.
    """
    reasons: dict[str, str] = {}  # by a key that is the same wherever a reason appears again

    def require(first: ComparedRun, second: ComparedRun, varied: Collection[str]) -> None:
        for reason in comparable(first, second, varied=varied):
            sides = "" if len(pairs) == 1 else f"{first.run_id} and {second.run_id}: "
            reasons[reason] = f"{sides}{reason}"

    for pair in pairs:
        require(*pair, varied)
        for reference, run, side in zip(pairs[0], pair, ("first", "second"), strict=True):
            if reference is run:
                continue
            require(reference, run, DRAWN_FOR_PAIRS)
            if reference.policy != run.policy:
                text = f"{run.run_id} has another policy than the other runs of the {side} side"
                reasons[text] = text
    if not reasons:
        return
    texts = list(reasons.values())
    more = len(texts) - _SHOWN_REASONS
    shown = texts[:_SHOWN_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])
    names = [name for name, _, _ in _scenario_changes(*pairs[0], varied)]
    fields = " ".join(f"--vary {name}" for name in names) if len(names) <= _SHOWN_REASONS else ""
    allowed = "\n  ".join(("runs that can be compared; these cannot:", *shown)) + (
        f"\nIf the sides differ on purpose: {fields}" if fields else ""
    )
    value = ", ".join(run.run_id for run in pairs[0]) + (", …" if len(pairs) > 1 else "")
    raise WrongInput(where="compare", field="runs", value=value, allowed=allowed)


def _by_seed(runs: Sequence[ComparedRun]) -> dict[int, list[ComparedRun]]:
    found: dict[int, list[ComparedRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.created_at, run.run_id)):
        found[run.measures.seed].append(run)
    return found
