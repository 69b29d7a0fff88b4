"""Build the reaction chain: from the load step to the first record done by a new pod.

t0 load step         planned instant of the first spike's start
t1 lag crosses       total lag rises above lagThreshold x replicas at t0 (interpolated), or above
                     the group's target (due.py)
t2 autoscaler reads  first sync (or poll) after t1 whose metric is above that; a cluster's HPA
                     shows it only in its status (t2_reading.py)
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

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from lagbench.core.measures.evidence import Clocks, clocks_measure
from lagbench.core.measures.model import NANOSECONDS, Interval, MeasureModel, NamedMeasure
from lagbench.core.measures.reaction.stamps import ReactionInput, reaction_stamps, ruling_clock
from lagbench.core.measures.reaction.t2_reading import RulingClock, Stamp

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

    named: ClassVar[tuple[NamedMeasure[Reaction], ...]] = (
        NamedMeasure(
            "reaction_seconds",
            "Scale-out reaction",
            "s",
            1,
            lambda reaction: reaction.assigned_seconds,
            lambda reaction: reaction.assigned_interval,
        ),
    )

    @property
    def assigned_interval(self) -> Interval | None:
        """Return the bounds of ``assigned_seconds``; None: a clock of its stamps is not bounded."""
        low, high = self.assigned_low_seconds, self.assigned_high_seconds
        return None if low is None or high is None else (low, high)


def reaction(given: ReactionInput) -> Reaction:
    """Return the chain of the step at ``given.step_at``; a link without a stamp stays None."""
    threshold, count = given.crossing_records, given.replicas_at_step
    clock, clock_text = ruling_clock(count)
    stamps, pod = reaction_stamps(given, clock)
    return _chain(
        _place(stamps, TITLES_OF_TASKS if given.has_tasks else TITLES),
        _assigned(stamps),
        pod,
        threshold_records=threshold,
        threshold_text=given.limits.scales_above_text(count),
        is_threshold_crossed=_is_crossed(given, stamps),
        ruling_clock=clock,
        ruling_clock_text=clock_text,
        clocks=clocks_measure(given.clocks),
    )


def _is_crossed(given: ReactionInput, stamps: Mapping[str, Stamp]) -> bool | None:
    """Return whether lag crossed the threshold; a no needs lag samples without a gap."""
    if given.crossing_records is None or "t1" not in stamps:
        return None
    if stamps["t1"].at is not None:
        return True
    return None if given.lag_gaps else False


def _place(stamps: Mapping[str, Stamp], titles: Mapping[str, str]) -> tuple[ReactionLink, ...]:
    links: list[ReactionLink] = []
    previous: int | None = None
    for name, title in titles.items():
        stamp = stamps.get(name, Stamp(None))
        at, part, note = stamp.at, None, stamp.note
        if at is not None and previous is not None:
            if at < previous:
                early = (previous - at) / NANOSECONDS
                note = f"{note}; " * bool(note) + f"stamped {early:.3f} s before the previous link"
                at = previous
            part = (at - previous) / NANOSECONDS
        previous = at if at is not None else previous
        precision = None if stamp.at is None else stamp.precision_seconds
        if part is not None and precision is not None and precision > part > 0:
            note = f"{note}; " * bool(note) + f"its precision of {precision:.3f} s exceeds the part"
        stamped_at = stamp.at if stamp.stamped_at is None else stamp.stamped_at
        fields = {"name": name, "title": title, "at": at, "stamped_at": stamped_at, "note": note}
        links.append(
            ReactionLink.model_validate(
                {**fields, "part_seconds": part, "precision_seconds": precision}
            )
        )
    return tuple(links)


def _assigned(stamps: Mapping[str, Stamp]) -> dict[str, float | None]:
    """Return max(t5, t7) - t0 from the stamps, and the interval in which it lies."""
    step, ready, owned = (stamps.get(name, Stamp(None)) for name in ("t0", "t5", "t7"))
    if step.at is None or ready.at is None or owned.at is None:
        return {}
    value = (max(ready.at, owned.at) - step.at) / NANOSECONDS
    known = [s.precision_seconds for s in (step, ready, owned) if s.precision_seconds is not None]
    if len(known) < 3:
        return {"assigned_seconds": value}
    after_ready = (ready.at - step.at) / NANOSECONDS
    after_owned = (owned.at - step.at) / NANOSECONDS
    of_step, of_ready, of_owned = known
    return {
        "assigned_seconds": value,
        "assigned_low_seconds": max(after_ready - of_ready, after_owned - of_owned) - of_step,
        "assigned_high_seconds": max(after_ready + of_ready, after_owned + of_owned) + of_step,
    }


def _chain(
    links: tuple[ReactionLink, ...],
    assigned: Mapping[str, float | None],
    pod: str | None,
    *,
    threshold_records: float | None,
    threshold_text: str,
    is_threshold_crossed: bool | None,
    ruling_clock: RulingClock,
    ruling_clock_text: str,
    clocks: Clocks,
) -> Reaction:
    at = {link.name: link.at for link in links}
    start, end = at["t0"], at["t8"]
    total = None if start is None or end is None else (end - start) / NANOSECONDS
    parts = [link.part_seconds for link in links if link.part_seconds is not None]
    parts_sum = sum(parts) if total is not None else None
    missing = [f"{link.name} ({link.title})" for link in links if link.at is None]
    return Reaction(
        links=links,
        pod=pod,
        is_complete=not missing,
        reason=_missing_text(missing, links),
        total_seconds=total,
        assigned_seconds=assigned.get("assigned_seconds"),
        assigned_low_seconds=assigned.get("assigned_low_seconds"),
        assigned_high_seconds=assigned.get("assigned_high_seconds"),
        parts_sum_seconds=parts_sum,
        parts_sum_to_total=None
        if parts_sum is None or total is None
        else abs(parts_sum - total) <= SUM_TOLERANCE_SECONDS,
        threshold_records=threshold_records,
        threshold_text=threshold_text,
        is_threshold_crossed=is_threshold_crossed,
        ruling_clock=ruling_clock,
        ruling_clock_text=ruling_clock_text,
        clocks=clocks,
    )


def _missing_text(missing: Sequence[str], links: Sequence[ReactionLink]) -> str:
    if not missing:
        return ""
    if links[0].at is None:
        return "the load had no step"
    first = next(link for link in links if link.at is None)
    return f"not recorded: {', '.join(missing)}" + (f"; {first.note}" if first.note else "")
