"""Build the reaction chain: from the load step to the first record done by a new pod.

t0 load step         planned instant of the first spike's start
t1 lag crosses       total lag rises above lagThreshold x replicas at t0 (interpolated), or above
                     the group's target (pods_due.py)
t2 autoscaler reads  first sync (or poll) after t1 whose metric is above that; a cluster's HPA
                     shows it only in its status (reaction_stamps.py)
t3 desired changes   desired replicas rise
t4 pod created       \
t5 Ready              |
t6 joined             | all of one pod: of those created after t3, the one whose first record was
t7 first partition    | done first (without any: the one that got furthest)
t8 first record done /

Each link is placed at its stamp, but never before the previous link; so parts are never negative
and sum to the total. A stamp that lies before its predecessor (a pod that joins before its
readiness probe was answered) is kept in ``stamped_at`` with a note.

All instants are on the recorder's clock. A link's precision is the largest error of its stamp,
including the bound of its clock's skew (clocks.py); a note reports a precision above its part.

The SLO judges max(Ready, assigned) - load step, from the stamps themselves: t1 to t4 are links of
the chain and cannot change it. Its interval has the precision of those three stamps.

From one replica on, the HPA's sync is the ruling clock; from zero replicas it is KEDA's
pollingInterval. The HPA may read KEDA's polled values (useCachedMetrics); this is ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from operator import add, sub
from typing import Literal

from lagbench.core.measures.evidence.clock_readings import Clocks, clocks_measure
from lagbench.core.measures.evidence.lag_readings import gaps_text
from lagbench.core.measures.evidence.played_actions import TopicPartitions
from lagbench.core.measures.evidence.pod_timeline import unwatched_text
from lagbench.core.measures.model import NANOSECONDS, Interval, MeasureModel
from lagbench.core.measures.pods_due import Due, Standing, pods_due, standing
from lagbench.core.measures.reaction_stamps import (
    ReactionInput,
    RulingClock,
    Stamp,
    first_rise,
    reaction_stamps,
    ruling_clock,
)
from lagbench.core.measures.replica_changes import replica_gaps
from lagbench.core.measures.replica_steps import ReplicaChange

TITLES = {
    "t0": "load step",
    "t1": "lag crosses the threshold",
    "t2": "autoscaler reads it",
    "t3": "desired replicas change",
    "t4": "pod created",
    "t5": "pod Ready",
    "t6": "pod joined the group",
    "t7": "first partition assigned",
    "t8": "first record done",
}
TITLES_OF_TASKS = TITLES | {
    "t6": "first task began",
    "t7": "first task finished",
    "t8": "its messages in the ledger",
}
"""Of a consumer on Spark, whose workers join no group."""
STAGES = {
    "t1": "lag crosses",
    "t3": "HPA's sync",
    "t5": "pod Ready",
    "t7": "first partition",
    "t8": "first message",
}
"""The links between which the reaction is divided, and what each stage waits for."""
SUM_TOLERANCE_SECONDS = 0.001
ReactionOutcome = Literal["reacted", "not_due", "did_not_come", "unknown"]


class ReactionLink(MeasureModel):
    """One instant of the reaction chain and the time since the link before it."""

    name: Literal["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"]
    title: str
    at: int | None  # as placed in the chain: never before the previous link
    stamped_at: int | None  # as its owner stamped it
    part_seconds: float | None  # since the previous known link; t0 has none
    precision_seconds: float | None  # how exact the stamp is, skew included; None: not bounded
    note: str = ""


class Reaction(MeasureModel):
    """From the load step to the first record done by a new pod; of several steps the worst one."""

    links: tuple[ReactionLink, ...]
    pod: str | None  # the first new pod that finished a record; the chain is that pod's
    is_complete: bool
    reason: str  # why the chain ends early; empty when it is complete
    total_seconds: float | None  # t0 to t8
    assigned_seconds: float | None  # t0 to Ready and assigned, by their stamps: what the SLO judges
    parts_sum_seconds: float | None
    parts_sum_to_total: bool | None
    threshold_records: float | None
    threshold_text: str
    is_threshold_crossed: bool | None
    ruling_clock: RulingClock
    ruling_clock_text: str
    clocks: Clocks | None = None  # None: measured before clocks were bounded
    assigned_low_seconds: float | None = None  # the interval of ``assigned_seconds``
    assigned_high_seconds: float | None = None  # None: a clock is not bounded
    outcome: ReactionOutcome | None = None  # None: the load has no step, or it was not judged
    outcome_text: str = ""
    step_number: int | None = None  # from 1: the load step of the chain
    step_count: int | None = None
    unknown_text: str = ""  # another step whose reaction is not known; empty: none

    @property
    def assigned_interval(self) -> Interval | None:
        """Return the bounds of ``assigned_seconds``; None: a clock of its stamps is not bounded."""
        low, high = self.assigned_low_seconds, self.assigned_high_seconds
        return None if low is None or high is None else (low, high)

    @property
    def pod_start_percent(self) -> float | None:
        """Return the part from created to Ready in the chain up to the first partition."""
        parts = {link.name: link.part_seconds for link in self.links if "t0" < link.name <= "t7"}
        known = {name: part for name, part in parts.items() if part is not None}
        if len(known) < len(parts) or not sum(known.values()):
            return None
        return 100 * known["t5"] / sum(known.values())

    @property
    def stages(self) -> dict[str, float | None]:
        """Return the seconds from each of STAGES to the one before; None: either is not known."""
        at: dict[str, int | None] = {link.name: link.at for link in self.links}
        ends = pairwise(at.get(name) for name in ("t0", *STAGES))
        return {
            name: None if begin is None or end is None else (end - begin) / NANOSECONDS
            for name, (begin, end) in zip(STAGES, ends, strict=True)
        }


def reaction(given: ReactionInput) -> Reaction:
    """Return the chain of the step at ``given.step_at``; a link without a stamp stays None."""
    count, threshold = given.replicas_at_step, given.crossing_records
    clock, clock_text = ruling_clock(count)
    stamps, pod = reaction_stamps(given, clock)
    links = _place(stamps, TITLES_OF_TASKS if given.has_tasks else TITLES)
    start, end = links[0].at, links[-1].at
    total = parts_sum = None
    if start is not None and end is not None:
        total = (end - start) / NANOSECONDS
        parts_sum = sum(link.part_seconds for link in links if link.part_seconds is not None)
    missing = [link for link in links if link.at is None]
    reason = "the load had no step" if start is None else ""
    if missing and not reason:
        named = ", ".join(f"{link.name} ({link.title})" for link in missing)
        reason = "; ".join(filter(None, (f"not recorded: {named}", missing[0].note)))
    is_crossed = None  # a no needs lag samples without a gap
    if threshold is not None and "t1" in stamps:
        is_crossed = stamps["t1"].at is not None or (None if given.lag_gaps else False)
    return Reaction(
        links=links,
        pod=pod,
        is_complete=not missing,
        reason=reason,
        total_seconds=total,
        **_assigned(stamps),
        parts_sum_seconds=parts_sum,
        parts_sum_to_total=None
        if parts_sum is None or total is None
        else abs(parts_sum - total) <= SUM_TOLERANCE_SECONDS,
        threshold_records=threshold,
        threshold_text=given.limits.scales_above_text(count),
        is_threshold_crossed=is_crossed,
        ruling_clock=clock,
        ruling_clock_text=clock_text,
        clocks=clocks_measure(given.clocks),
    )


def _place(stamps: Mapping[str, Stamp], titles: Mapping[str, str]) -> tuple[ReactionLink, ...]:
    links: list[ReactionLink] = []
    previous: int | None = None
    for name, title in titles.items():
        stamp = stamps.get(name, Stamp(None))
        at, part, notes = stamp.at, None, [stamp.note]
        precision = None if at is None else stamp.precision_seconds
        if at is not None and previous is not None:
            if at < previous:
                early = (previous - at) / NANOSECONDS
                notes.append(f"stamped {early:.3f} s before the previous link")
                at = previous
            part = (at - previous) / NANOSECONDS
            if precision is not None and precision > part > 0:
                notes.append(f"its precision of {precision:.3f} s exceeds the part")
        previous = previous if at is None else at
        fields = {
            "name": name,
            "title": title,
            "at": at,
            "stamped_at": stamp.at if stamp.stamped_at is None else stamp.stamped_at,
            "part_seconds": part,
            "precision_seconds": precision,
            "note": "; ".join(filter(None, notes)),
        }
        links.append(ReactionLink.model_validate(fields))
    return tuple(links)


def _assigned(stamps: Mapping[str, Stamp]) -> dict[str, float | None]:
    """Return max(t5, t7) - t0 from the stamps, and the interval in which it lies."""
    step, ready, owned = (stamps.get(name, Stamp(None)) for name in ("t0", "t5", "t7"))
    if step.at is None or ready.at is None or owned.at is None:
        return {"assigned_seconds": None}
    value = (max(ready.at, owned.at) - step.at) / NANOSECONDS
    errors = [stamp.precision_seconds for stamp in (step, ready, owned)]
    known = [error for error in errors if error is not None]
    if len(known) < len(errors):
        return {"assigned_seconds": value}
    after = [(stamp.at - step.at) / NANOSECONDS for stamp in (ready, owned) if stamp.at is not None]
    of_step, *others = known
    return {
        "assigned_seconds": value,
        "assigned_low_seconds": max(map(sub, after, others)) - of_step,
        "assigned_high_seconds": max(map(add, after, others)) + of_step,
    }


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
    given: ReactionInput, chain: Reaction, due: Due, at_step: Standing, rise: ReplicaChange | None
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
