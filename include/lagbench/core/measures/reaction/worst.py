"""Determine the reaction of a run: the chain of the load step with the worst response.

Each spike is a load step. A step that needs pods (``reaction/due.py``) is answered by the first
rise of the desired replicas after it, and its reaction is the chain's max(Ready, assigned) after
the load step. A step that needs none reacts in 0 s. A pod that was due and did not come is the
worst outcome. If the evidence of a step is missing, its reaction is not known, which is neither of
these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lagbench.core.measures.evidence import TopicPartitions, gaps_text, unwatched_text
from lagbench.core.measures.reaction.chain import Reaction, ReactionOutcome, reaction
from lagbench.core.measures.reaction.due import Due, Standing, pods_due, standing
from lagbench.core.measures.reaction.stamps import ReactionInput
from lagbench.core.measures.replicas import ReplicaChange, replica_gaps

_RANK: dict[ReactionOutcome, int] = {"did_not_come": 3, "reacted": 2, "unknown": 1, "not_due": 0}


def worst_reaction(
    given: ReactionInput, *, partitions: TopicPartitions, pod_rate_per_second: float | None
) -> Reaction:
    """Return the chain of the worst step of ``given.load``; without one, an empty chain."""
    windows = given.load.spike_windows
    if not windows:
        return reaction(given)
    ends = [*(window.started_at for window in windows[1:]), given.until_at]
    found: list[Reaction] = []
    for number, (window, end) in enumerate(zip(windows, ends, strict=True), start=1):
        at_step = standing(given.records, given.changes, window.started_at)
        of_step = replace(
            given,
            step_at=window.started_at,
            replicas_at_step=at_step.wanted,
            awaits_pods=at_step.is_incomplete,
        )
        needs = None
        if pod_rate_per_second:
            needs = window.rate_peak_per_second / pod_rate_per_second
        due = pods_due(
            given.lag,
            given.limits,
            at_step,
            partitions=partitions.at(window.started_at),
            step_at=window.started_at,
            until_at=min(end, given.until_at),
            load_needs=needs,
        )
        chain = _of_step(of_step, due, at_step, window_ends_at=end)
        found.append(chain.model_copy(update={"step_number": number, "step_count": len(windows)}))
    worst = max(found, key=_badness)
    unknown = [chain for chain in found if chain.outcome == "unknown" and chain is not worst]
    doubt_text = f"load step {unknown[0].step_number}: {unknown[0].outcome_text}" if unknown else ""
    return worst.model_copy(update={"unknown_text": doubt_text})


def _badness(chain: Reaction) -> tuple[int, float]:
    rank = 1 if chain.outcome is None else _RANK[chain.outcome]
    return rank, chain.assigned_seconds or 0.0


def _of_step(given: ReactionInput, due: Due, at_step: Standing, *, window_ends_at: int) -> Reaction:
    chain = reaction(given)
    rise = first_rise(given.changes, given.step_at)
    is_own = rise is not None and rise.at < window_ends_at
    is_answer = due.is_due or (due.is_due is None and is_own) or due.is_answered_by(rise)
    if chain.assigned_seconds is not None and is_answer:
        return _with_outcome(chain, "reacted", due.text)
    if due.is_due is False:
        # A later rise answered something else: it is not part of this step's chain.
        return _with_outcome(_cut(chain), "not_due", due.text)
    if due.is_due is None:
        return _with_outcome(chain, "unknown", f"it is not known whether a pod was due: {due.text}")
    return _with_outcome(chain, *_missing(given, chain, due, at_step, rise))


def first_rise(changes: Sequence[ReplicaChange], step_at: int | None) -> ReplicaChange | None:
    """Return the first rise of the desired replicas at or after the load step."""
    rises = (c for c in changes if c.replicas_after > c.replicas_before)
    return next((c for c in rises if step_at is not None and c.at >= step_at), None)


def _missing(
    given: ReactionInput,
    chain: Reaction,
    due: Due,
    at_step: Standing,
    rise: ReplicaChange | None,
) -> tuple[ReactionOutcome, str]:
    """Return whether the due pod did not come, or whether that is unknown."""
    if rise is None:
        doubt, what = _rise_in_a_gap(given, at_step), "no pod was added"
    else:
        doubt = unwatched_text(
            given.records,
            given.timelines,
            given.step_at or 0,
            given.until_at,
            members_are_pods=given.members_are_pods,
        )
        what = "no new pod was created"
    if doubt:
        return "unknown", f"{due.text}; {doubt}"
    if chain.pod is None:
        return "did_not_come", f"{due.text}, but {what}"
    seen = {link.name for link in chain.links if link.at is not None}
    if not seen & {"t5", "t6", "t7", "t8"}:
        return "did_not_come", f"{due.text}, but {chain.pod} never became Ready"
    return "unknown", f"{chain.pod} was created, but {chain.reason}"


def _rise_in_a_gap(given: ReactionInput, at_step: Standing) -> str:
    """Return why it is unknown whether a pod was added; empty when it is known."""
    gaps = replica_gaps(given.records, given.step_at or 0, given.until_at)
    if gaps:
        return gaps_text("replicas", gaps, given.step_at)
    if at_step.is_incomplete:
        return f"{at_step.wanted} replicas were wanted at the load step, {at_step.ready} were Ready"
    return ""


def _with_outcome(chain: Reaction, outcome: ReactionOutcome, text: str) -> Reaction:
    return chain.model_copy(update={"outcome": outcome, "outcome_text": text})


def _cut(chain: Reaction) -> Reaction:
    """Return the chain without the links from t2 on."""
    links = tuple(
        link
        if link.name in ("t0", "t1")
        else link.model_copy(
            update={
                "at": None,
                "stamped_at": None,
                "part_seconds": None,
                "precision_seconds": None,
                "note": "no pod was due",
            }
        )
        for link in chain.links
    )
    return chain.model_copy(
        update={
            "links": links,
            "pod": None,
            "is_complete": False,
            "reason": "no pod was due",
            "total_seconds": None,
            "assigned_seconds": None,
            "assigned_low_seconds": None,
            "assigned_high_seconds": None,
            "parts_sum_seconds": None,
            "parts_sum_to_total": None,
        }
    )
