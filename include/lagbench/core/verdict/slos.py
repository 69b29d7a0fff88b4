"""The table of SLOs: what each rests on, and how its measure is read.

To add an SLO on a measure, give its limit a field of ``Slos`` (``core/scenario/scenario.py``) with
the measure's name, and add its row here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from lagbench.core.measures.doubts.doubts_of_policy import Part
from lagbench.core.measures.drain import Drain
from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS
from lagbench.core.measures.evidence.played_actions import Hidden
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.model import NANOSECONDS, StepValue
from lagbench.core.measures.rebalance_episodes import SCALE_STEPS, RebalanceEpisode
from lagbench.core.measures.scale_steps import area_of, dip_of, recovery_of
from lagbench.core.measures.scaling import Scaling
from lagbench.core.measures.standstill import COSTS_PER_LIMIT
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.accounting_slos import count_of_messages, failed_messages
from lagbench.core.verdict.slo import Slo, SloResult, slo_of
from lagbench.shared_with_spark import message_classes


def slo_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return each SLO's own outcome, in the order of the table."""
    found = (row.judge(measures, slo_of(row.name, getattr(slos, row.name))) for row in TABLE)
    return [result for result in found if result is not None]


def _reaction(measures: Measures, slo: Slo) -> SloResult:
    """Judge the lab's reaction: load step to the first new pod Ready and assigned.

    A pod that was due and did not come is a failure to react. A load step that asked for no pod,
    or that more replicas could not help, reacted in 0 s.
    """
    chain, of_step = measures.reaction, ""
    if measures.load.spikes == 0:
        return _without_spike(measures, slo)
    if (chain.step_count or 0) > 1:
        of_step = f"load step {chain.step_number} of {chain.step_count}: "
    shown = f"{of_step}{chain.outcome_text}"
    if chain.outcome == "did_not_come":
        return slo.result("fail", None, shown)
    if chain.outcome == "not_due":
        result = slo.compare(0.0, f"{shown}: no pod was due")
    elif chain.outcome != "reacted" or chain.assigned_seconds is None:
        return slo.unknown(shown or "the load step is not known")
    else:
        parts = [
            f"{link.name} {link.title} {link.part_seconds:.1f} s"
            for link in chain.links
            if link.part_seconds is not None and link.name != "t8"
        ]
        did = "was Ready and assigned" if measures.spark is None else "had finished a task"
        reason = f"{of_step}{chain.pod} {did}; {', '.join(parts)}"
        if chain.clocks is not None and not chain.clocks.is_one_clock:
            reason = f"{reason}; {chain.clocks.text}"
        result = slo.judge(measures, reason, unbounded="a clock of these stamps is not bounded")
    if result.status == "pass" and chain.unknown_text:
        return result.opened(f"but {chain.unknown_text}")
    return result


def _without_spike(measures: Measures, slo: Slo) -> SloResult:
    if measures.spikes_unknown:
        return slo.unknown(measures.spikes_unknown)
    return slo.without_occasion("the plan of the load has no spike")


def _flips(measures: Measures, slo: Slo) -> SloResult:
    scaling = measures.scaling
    if scaling.flips is None:
        return slo.unknown("there is no sample of the replicas")
    reason = f"replica changes: {scaling.change_count}, reversals: {scaling.reversals}"
    flips = [change for change in scaling.changes if change.is_flip]
    if flips:
        first = flips[0]
        reason += (
            f"; first flip {measures.moment(first.at)}: {first.replicas_before} to"
            f" {first.replicas_after} by {first.by}"
        )
    if flips and scaling.self_made_flips is not None:
        reason += f"; {scaling.self_made_flips} of {scaling.flips} flips are self-made"
    result = slo.at_least(measures, scaling.flips, reason, scaling.gaps_text)
    is_one_above = slo.limit is not None and slo.limit < scaling.flips <= slo.limit + 1
    if is_one_above and measures.spikes_unknown:  # one of them may be the return from a spike
        return result.opened(measures.spikes_unknown)
    return result


def _pod_minutes(measures: Measures, slo: Slo) -> SloResult:
    scaling = measures.scaling
    if scaling.pod_minutes is None:
        why = scaling.unwatched_text or "the pods' timelines are not known"
        least = scaling.seen_pod_minutes
        if least is not None and slo.limit is not None and least > slo.limit:
            return slo.result("fail", least, f"the pods that were seen took this; {why}")
        return slo.unknown(why)
    reason = f"at most {scaling.max_replicas} replicas at a time"
    return slo.at_least(measures, scaling.pod_minutes, reason, scaling.gaps_text)


def _baseline(measures: Measures, slo: Slo) -> SloResult:
    scaling = measures.scaling
    if not scaling.has_baseline:
        return slo.without_occasion(scaling.baseline_text)
    reason, began_at = scaling.baseline_text, measures.load.first_spike_started_at
    early = [one for one in scaling.changes if began_at is None or one.at < began_at]
    if any("-cron-" in one.reason for one in early):
        reason += "; an open cron trigger keeps them: slos.baseline_at_floor: false permits it"
    result = slo.claim(scaling.baseline_at_floor, reason)
    if result.status == "fail" and measures.spikes_unknown:
        return result.opened(measures.spikes_unknown)
    return result


def _surplus(measures: Measures, slo: Slo) -> SloResult:
    """Judge the pods beyond the partitions; their absence is proven, or not known."""
    scaling = measures.scaling
    shown, counted = scaling.max_members, scaling.max_group_members
    if shown is None or _beyond(scaling.members_beyond, shown, scaling) > 0:
        return slo.claim(scaling.surplus_pods_idle, scaling.surplus_text)
    unsure = ""
    if counted is not None and _beyond(scaling.group_members_beyond, counted, scaling) > 0:
        unsure = f"the broker counted {counted} members, the pods' own records show {shown}"
    elif scaling.ceiling_replicas is None or scaling.ceiling_replicas > scaling.partitions:
        most = scaling.max_replicas
        if most is None or scaling.gaps_text:
            unsure = scaling.gaps_text or "there is no sample of the replicas"
        elif _beyond(scaling.replicas_beyond, most, scaling) > 0:
            unsure = "there is no sample of the replicas"
    if unsure and slo.limit:
        return slo.unknown(f"{scaling.surplus_text}; {unsure}")
    return slo.without_occasion(scaling.surplus_text)


def _beyond(found: int | None, most: int, scaling: Scaling) -> int:
    """Return the most above the partitions of an instant; ``most`` decides where it is missing."""
    return most - scaling.partitions if found is None else found


@dataclass(frozen=True, slots=True)
class _OfSteps:
    """An SLO on the worst scale step under load: what to read of a step, and how to show it."""

    read: Callable[[RebalanceEpisode], StepValue]
    text: Callable[[RebalanceEpisode], str]

    def __call__(self, measures: Measures, slo: Slo) -> SloResult:
        """Judge the worst scale step: a certain failure before a possible one."""
        if (none := _without_steps(measures, slo)) is not None:
            return none
        steps, idle = _steps(measures)
        limit = float("inf") if slo.limit is None else slo.limit
        read = [(self.read(step), step) for step in steps]
        known = [
            (found.low > limit, found.value, found.low, step)
            for found, step in read
            if found.value is not None and found.low is not None
        ]
        if known:
            is_sure, value, least, worst = max(known, key=lambda row: row[:2])
            if len(known) == len(steps) or is_sure:
                shown = f"{_episode(measures, worst)}, {self.text(worst)}"
                reason = f"worst of {_count(len(steps))}: {shown}"
                if idle:
                    reason += f"; {_count(idle)} happened in an idle group"
                return slo.compare(value, reason, low=least, high=value)
        unknown = next(step for found, step in read if found.value is None)
        return slo.unknown(f"not measured in {_episode(measures, unknown)}: {unknown.reason}")


def _dip_text(episode: RebalanceEpisode) -> str:
    text = (
        f"from {episode.expected_rate_per_second or 0:.0f}/s to"
        f" {episode.min_rate_per_second or 0:.0f}/s over {episode.window_seconds or 0:g} s"
    )
    if episode.short_dip_percent is None or episode.window_seconds is None:
        return text
    text += f"; deepest {episode.window_seconds / 5:g} s {episode.short_dip_percent:.0f} %"
    if episode.short_dip_noise_percent is None:
        return text
    return f"{text} (undisturbed {episode.short_dip_noise_percent:.0f} %)"


def _without_steps(measures: Measures, slo: Slo) -> SloResult | None:
    """Return the outcome if no scale step under load can be judged."""
    scaling, found = measures.scaling, measures.rebalances
    steps, idle = _steps(measures)
    unknown = ""
    if found.unanswered_step_ats:
        when = measures.moment(found.unanswered_step_ats[0])
        unknown = f"the replicas changed {when} under load, but no rebalance was recorded"
    elif scaling.max_replicas is None:
        unknown = "there is no sample of the replicas"
    elif steps:
        return None
    elif not idle and not scaling.changes:
        most = max((e.members_after for e in found.episodes), default=0)
        unknown = scaling.gaps_text
        if most > scaling.max_replicas:
            unknown = f"{most} members, but never more than {scaling.max_replicas} replicas wanted"
    if unknown:
        return slo.unknown(unknown)
    stayed = f"the replicas stayed at {scaling.max_replicas}"
    none = "no scale step under load" if scaling.changes else stayed
    return slo.without_occasion(f"{_count(idle)} happened in an idle group" if idle else none)


def _steps(measures: Measures) -> tuple[list[RebalanceEpisode], int]:
    """Return the scale steps with work to lose, and how many met an idle group: it cannot dip."""
    every = [e for e in measures.rebalances.episodes if e.trigger in SCALE_STEPS]
    steps = measures.rebalances.steps(*SCALE_STEPS)
    return steps, len(every) - len(steps)


def _count(steps: int) -> str:
    return f"{steps} scale step{'s' * (steps != 1)}"


def _recovery(measures: Measures, slo: Slo) -> SloResult:
    """Judge the slowest recovery: a certain failure before a step that was not seen to recover."""
    if (none := _without_steps(measures, slo)) is not None:
        return none
    limit = float("inf") if slo.limit is None else slo.limit
    steps, _ = _steps(measures)
    known, unseen = [], []
    for step in steps:
        found = recovery_of(step)
        least = found.low or 0.0
        if found.value is None:
            unseen.append((least > limit, step))
        else:
            known.append(((least > limit, found.value), least, step))
    slowest = max(known, key=lambda row: row[0], default=None)
    if slowest is not None and (not unseen or slowest[1] > limit):
        (_, seconds), least, step = slowest
        return slo.compare(seconds, f"slowest: {_episode(measures, step)}", low=least, high=seconds)
    is_late, shown = next((row for row in unseen if row[0]), unseen[0])
    reason = f"{_episode(measures, shown)}: {shown.reason} ({shown.observed_seconds:.1f} s)"
    return slo.result("fail" if is_late else "undetermined", None, reason)


def _episode(measures: Measures, episode: RebalanceEpisode) -> str:
    return (
        f"episode {episode.number} {measures.moment(episode.started_at)} ({episode.trigger_text})"
    )


def _standstill(measures: Measures, slo: Slo) -> SloResult:
    found, limit = measures.standstill, slo.limit
    if limit is not None:
        limit = max(limit, COSTS_PER_LIMIT * (0.0 if found is None else found.message_seconds))
    slo = slo_of(slo.name, limit)
    if found is None or found.group_seconds is None:
        return slo.unknown("it was not measured" if found is None else found.reason)
    if found.group_seconds:
        reason = f"work waited and nothing was done {measures.moment(found.group_started_at)}"
    else:
        reason = "the group worked whenever work waited"
    if found.partition is not None and found.partition_seconds:
        reason += (
            f"; partition {found.partition} stood longest, {found.partition_seconds:.1f} s"
            f" {measures.moment(found.partition_started_at)}"
        )
    return slo.judge(measures, f"{reason}; {found.reason}" if found.reason else reason)


def _drain(measures: Measures, slo: Slo) -> SloResult:
    """Judge the interval in which lag came down: since it was last known above the threshold."""
    drain = measures.drain
    if measures.load.spikes == 0 and not measures.spikes_unknown:
        return _without_spike(measures, slo)
    if drain.spike_ended_at is None:
        return slo.unknown(measures.spikes_unknown or "it is not known when the spike ended")
    if drain.threshold_records is None:
        return slo.unknown(drain.threshold_text)
    if drain.drain_seconds is None:
        return _undrained(drain, slo, drain.spike_ended_at)
    reason = f"lag at most {drain.threshold_records:g} {measures.moment(drain.drained_at)}"
    most, partitions = measures.scaling.max_ready_replicas, measures.scaling.partitions
    if most and most < partitions and not measures.is_skew_limited:
        shared = f"{most} pods at most read {partitions} partitions"
        reason += f"; {shared}: one had {-(-partitions // most)} of them"
    elif drain.skew_limited_seconds is not None:
        reason += (
            f"; partition {drain.hottest_partition} alone needs"
            f" {drain.skew_limited_seconds:.1f} s with one pod"
        )
    unbounded = "the producer's clock is not bounded, and neither is the end of the spike"
    result = slo.judge(measures, reason, unbounded=unbounded)
    if drain.above_until_at is None or drain.drained_at is None or drain.drain_interval is None:
        return result
    return _unless_hidden(result, measures, [(drain.above_until_at, drain.drained_at)])


def _undrained(drain: Drain, slo: Slo, spike_ended_at: int) -> SloResult:
    """Return the outcome of lag not seen to come down: fail only if seen above after the limit."""
    watched = ((drain.above_until_at or spike_ended_at) - spike_ended_at) / NANOSECONDS
    reason = f"lag still above {drain.threshold_records:g} {watched:.0f} s after the spike"
    error = drain.clock_error_seconds
    if slo.limit is not None and error is not None and watched - error > slo.limit:
        return slo.result("fail", None, reason)
    return slo.unknown(f"{reason}, and no later sample shows that it fell")


def _falls(measures: Measures, slo: Slo) -> SloResult:
    if measures.load.spikes == 0:
        if measures.spikes_unknown:
            return slo.unknown(measures.spikes_unknown)
        return slo.without_occasion(measures.drain.monotone_text)
    result = slo.claim(measures.drain.falls_monotonically, measures.drain.monotone_text)
    return _unless_hidden(result, measures, measures.drain.open_lag_gaps)


def _unless_hidden(
    result: SloResult, measures: Measures, gaps: Sequence[tuple[int, int]]
) -> SloResult:
    """Return ``result`` as not judged if gaps in the lag that actions hid alone leave it open.

    ``gaps``: begin and end (unix ns). Each must lie inside the window of an action that hides such
    readings. A result that passes or fails stays: the gap did not matter.
    """
    long = [gap for gap in gaps if gap[1] - gap[0] > GAP_SECONDS * NANOSECONDS]
    actions = [Hidden(measures.actions).reading("lag", *gap) for gap in long]
    names = list(dict.fromkeys(action.name for action in actions if action is not None))
    if result.status != "undetermined" or not long or None in actions:
        return result
    reason = f"not asked: {', '.join(names)} hid the readings of lag; {result.reason}"
    return result.model_copy(update={"status": "not_judged", "reason": reason})


def _time_lag(measures: Measures, slo: Slo, *, percent: int) -> SloResult:
    """Judge the percentile of all messages: it lies above that of the messages that were done."""
    found, undone = measures.lag.time_lag_seconds, measures.lag.never_done
    if slo.limit is not None and undone is not None and not undone.leaves(percent):
        reason = f"{undone.text}: {percent} % of all were not done in any time"
        return slo.result("fail", None, reason)
    value = NAMED[slo.name].read(measures)
    if value is None:
        return slo.unknown("the time lag was not measured")
    reason = "done minus planned"
    if found.p50 is not None and found.max is not None:
        reason += f": p50 {found.p50:.2f} s, max {found.max:.2f} s"
    unbounded = "the clock of the producer, or of a pod, is not bounded"
    if undone is None or not undone.at_most:
        return slo.judge(measures, reason, unbounded=unbounded)
    reason = f"{reason}; {undone.text}"
    least = measures.lag.time_lag_interval(value)
    most = measures.lag.time_lag_interval(measures.lag.time_lag_at_most(percent))
    if least is not None and most is not None:
        return slo.compare(value, reason, low=least[0], high=most[1])
    result = slo.judge(measures, reason, unbounded=unbounded)
    if result.status != "pass":
        return result
    return slo.unknown(
        f"{reason}: so it is not known in which time {percent} % of all were done", value
    )


@dataclass(frozen=True, slots=True)
class Row:
    """An SLO: its name, the parts of the evidence that it rests on, and how it is judged."""

    name: str
    rests_on: tuple[Part, ...]
    judge: Callable[[Measures, Slo], SloResult | None]


_WORK: tuple[Part, ...] = ("policy", "replicas", "group", "work")
TABLE = (
    Row("reaction_seconds", ("policy", "replicas", "lag", "group"), _reaction),
    Row("flips", ("policy", "replicas"), _flips),
    Row("pod_minutes", ("policy", "replicas"), _pod_minutes),
    Row("baseline_at_floor", ("policy", "replicas"), _baseline),
    Row("surplus_pods_idle", ("policy", "replicas", "group"), _surplus),
    Row("rebalance_dip_percent", _WORK, _OfSteps(dip_of, _dip_text)),
    Row(
        "rebalance_area_seconds",
        _WORK,
        _OfSteps(area_of, lambda step: f"{step.dip_area_messages or 0:,.0f} messages behind"),
    ),
    Row("rebalance_recovery_seconds", _WORK, _recovery),
    Row("standstill_seconds", ("policy", "work"), _standstill),
    Row("drain_seconds", ("policy", "lag"), _drain),
    Row("lag_falls_at_full_parallelism", ("policy", "replicas", "lag"), _falls),
    Row("time_lag_p95_seconds", ("policy", "latency"), partial(_time_lag, percent=95)),
    Row("time_lag_p99_seconds", ("policy", "latency"), partial(_time_lag, percent=99)),
    Row("lost", ("messages",), partial(count_of_messages, of=message_classes.LOST)),
    Row("failed", ("messages",), failed_messages),
    Row("duplicated", ("messages",), partial(count_of_messages, of=message_classes.DUPLICATED)),
    Row(
        "reordered",
        ("messages", "owners"),
        partial(count_of_messages, of=message_classes.REORDERED),
    ),
    Row("zombies", ("messages", "owners"), partial(count_of_messages, of=message_classes.ZOMBIE)),
)
RESTS_ON = {row.name: frozenset(row.rests_on) for row in TABLE}
"""The parts of the evidence by SLO: what is in doubt of them leaves it undetermined."""
