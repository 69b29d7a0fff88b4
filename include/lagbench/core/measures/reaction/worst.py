"""Determine the reaction of a run: the chain of the load step with the worst response.

Each spike is a load step. A step that needs pods (``reaction/due.py``) is answered by the first
rise of the desired replicas after it, and its reaction is the chain's max(Ready, assigned) after
the load step. A step that needs none reacts in 0 s. A pod that was due and did not come is the
worst outcome. If the evidence of a step is missing, its reaction is not known, which is neither of
these.
"""

from __future__ import annotations

from dataclasses import replace

from lagbench.core.measures.evidence.gaps import gaps_text
from lagbench.core.measures.evidence.in_force import TopicPartitions
from lagbench.core.measures.evidence.unrecorded import unwatched_text
from lagbench.core.measures.reaction.chain import Reaction, ReactionOutcome, reaction
from lagbench.core.measures.reaction.due import Due, Standing, pods_due, standing
from lagbench.core.measures.reaction.stamps import ReactionInput, first_rise
from lagbench.core.measures.replicas.coverage import replica_gaps
from lagbench.core.measures.replicas.steps import ReplicaChange

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
    chain, rise = reaction(given), first_rise(given.changes, given.step_at)
    is_own = rise is not None and rise.at < window_ends_at
    is_answer = due.is_due or (due.is_due is None and is_own) or due.is_answered_by(rise)
    outcome: ReactionOutcome = "reacted"
    text = due.text
    if chain.assigned_seconds is None or not is_answer:
        if due.is_due is False:
            # A later rise answered something else: it is not part of this step's chain.
            outcome, chain = "not_due", _cut(chain)
        elif due.is_due is None:
            outcome, text = "unknown", f"it is not known whether a pod was due: {due.text}"
        else:
            outcome, text = _missing(given, chain, due, at_step, rise)
    return chain.model_copy(update={"outcome": outcome, "outcome_text": text})


def _missing(
    given: ReactionInput,
    chain: Reaction,
    due: Due,
    at_step: Standing,
    rise: ReplicaChange | None,
) -> tuple[ReactionOutcome, str]:
    """Return whether the due pod did not come, or whether that is unknown."""
    step_at = given.step_at or 0
    if rise is None:
        what, doubt = "no pod was added", ""
        if gaps := replica_gaps(given.records, step_at, given.until_at):
            doubt = gaps_text("replicas", gaps, given.step_at)
        elif at_step.is_incomplete:
            wanted, ready = at_step.wanted, at_step.ready
            doubt = f"{wanted} replicas were wanted at the load step, {ready} were Ready"
    else:
        what, doubt = (
            "no new pod was created",
            unwatched_text(
                given.records,
                given.timelines,
                step_at,
                given.until_at,
                members_are_pods=given.members_are_pods,
            ),
        )
    if doubt:
        return "unknown", f"{due.text}; {doubt}"
    if chain.pod is None:
        return "did_not_come", f"{due.text}, but {what}"
    if all(link.at is None for link in chain.links if link.name in ("t5", "t6", "t7", "t8")):
        return "did_not_come", f"{due.text}, but {chain.pod} never became Ready"
    return "unknown", f"{chain.pod} was created, but {chain.reason}"


def _cut(chain: Reaction) -> Reaction:
    """Return the chain without the links from t2 on."""
    why = "no pod was due"
    none = dict.fromkeys(("at", "stamped_at", "part_seconds", "precision_seconds"))
    links = tuple(
        link if link.name in ("t0", "t1") else link.model_copy(update={**none, "note": why})
        for link in chain.links
    )
    of_pod = ("pod", "total_seconds", "parts_sum_seconds", "parts_sum_to_total")
    judged = ("assigned_seconds", "assigned_low_seconds", "assigned_high_seconds")
    update = {"links": links, "is_complete": False, "reason": why}
    return chain.model_copy(update={**update, **dict.fromkeys((*of_pod, *judged))})
