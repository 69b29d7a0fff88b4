"""Divide runs into two sides, and pair them by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from lagbench.core.compare.comparable import (
    DRAWN_FOR_PAIRS,
    ComparedRun,
    comparable,
    differing_fields,
)
from lagbench.errors import WrongInput

RunPair = tuple[ComparedRun, ComparedRun]
_SHOWN_REASONS = 8


def sides_by_policy(runs: Sequence[ComparedRun]) -> tuple[list[ComparedRun], list[ComparedRun]]:
    """Return the runs of the first run's policy, and those of the one other policy.

    :raises WrongInput: the runs are not of two policies.
    """
    by_policy: dict[str | None, list[ComparedRun]] = defaultdict(list)
    for run in runs:
        by_policy[run.policy].append(run)
    if len(by_policy) != 2:
        raise WrongInput(
            where="compare",
            field="policies",
            value=", ".join(sorted({run.measures.policy for run in runs})),
            allowed="runs of two policies, or two groups of runs with the word vs between them",
        )
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
    reasons = dict(_reasons(pairs, varied))
    if not reasons:
        return
    texts = list(reasons.values())
    more = len(texts) - _SHOWN_REASONS
    shown = texts[:_SHOWN_REASONS] + ([f"and {more} more reasons"] if more > 0 else [])
    raise WrongInput(
        where="compare",
        field="runs",
        value=", ".join(run.run_id for run in pairs[0]) + (", …" if len(pairs) > 1 else ""),
        allowed="runs that can be compared; these cannot: "
        + "; ".join(shown)
        + _way_out(pairs, varied),
    )


def _way_out(pairs: Sequence[RunPair], varied: Collection[str]) -> str:
    """Return how to compare sides that differ in scenario fields on purpose; empty: they do not."""
    fields = differing_fields(*pairs[0], varied=varied)
    named = " ".join(f"--vary {field}" for field in fields)
    return f". If the sides differ on purpose: {named}" if fields else ""


def _reasons(pairs: Sequence[RunPair], varied: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each reason, by a key that is the same wherever it appears again."""
    for first, second in pairs:
        yield from _named(first, second, varied)
        for reference, run, side in zip(
            pairs[0], (first, second), ("first", "second"), strict=True
        ):
            if reference is run:
                continue
            yield from _named(reference, run, DRAWN_FOR_PAIRS)
            if reference.policy != run.policy:
                text = f"{run.run_id} has another policy than the other runs of the {side} side"
                yield text, text


def _named(
    first: ComparedRun, second: ComparedRun, varied: Collection[str]
) -> Iterator[tuple[str, str]]:
    for reason in comparable(first, second, varied=varied):
        yield reason, f"{first.run_id} and {second.run_id}: {reason}"


def _by_seed(runs: Sequence[ComparedRun]) -> dict[int, list[ComparedRun]]:
    found: dict[int, list[ComparedRun]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.created_at, run.run_id)):
        found[run.measures.seed].append(run)
    return found
