"""Judge SLOs on the cost of scale steps (dip, recovery, area) and on standstill.

If part of the group's work is not recorded (``measures.work_unknown``), nothing here passes or
fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lagbench.core.measures import Measures, moment
from lagbench.core.measures.rebalance import (
    COSTS_PER_LIMIT,
    NO_WORK_REASONS,
    RECOVERED_SHARE,
    RebalanceEpisode,
)
from lagbench.core.scenario import Slos
from lagbench.core.verdict.slo import Slo, SloResult, not_applicable, slo_of

Reading = Callable[[RebalanceEpisode], float | None]


def rebalance_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return the SLOs on rebalances, in the order of the table."""
    results = [
        _dip(measures, slos),
        _area(measures, slos),
        _recovery(measures, slos),
        _standstill(measures, slos),
    ]
    if measures.work_unknown:
        results = [_open(result, measures.work_unknown) for result in results]
    return results


def _open(result: SloResult, doubt: str) -> SloResult:
    """Return ``result`` as undetermined, with its original reason."""
    if result.status not in ("pass", "fail"):
        return result.model_copy(update={"is_too_close": False})
    reason = f"{result.reason}; {doubt}"
    return result.model_copy(update={"status": "undetermined", "reason": reason})


def _dip(measures: Measures, slos: Slos) -> SloResult:
    slo = slo_of("rebalance_dip_percent", slos.rebalance_dip_percent)
    return _without_occasion(measures, slo) or _judged(
        measures,
        slo,
        value=lambda episode: episode.dip_percent,
        noise=lambda episode: episode.dip_noise_percent,
        text=_dip_text,
    )


def _area(measures: Measures, slos: Slos) -> SloResult:
    slo = slo_of("rebalance_area_seconds", slos.rebalance_area_seconds)
    return _without_occasion(measures, slo) or _judged(
        measures,
        slo,
        value=lambda episode: episode.area_seconds,
        noise=lambda episode: episode.area_noise_seconds,
        text=lambda episode: f"{episode.dip_area_messages or 0:,.0f} messages behind",
    )


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


def _without_occasion(measures: Measures, slo: Slo) -> SloResult | None:
    """Return the outcome and its reason if no scale step under load can be judged."""
    scaling, found = measures.scaling, measures.rebalances
    if found.unanswered_step_ats:
        when = moment(measures, found.unanswered_step_ats[0])
        reason = f"the replicas changed {when} under load, but no rebalance was recorded"
        return slo.result("undetermined", None, reason)
    if scaling.max_replicas is None:
        return slo.result("undetermined", None, "there is no sample of the replicas")
    steps = _all_steps(measures)
    if _under_load(steps):
        return None
    if steps or scaling.changes:
        idle = f"{_count(len(steps))} happened in an idle group"
        reason = idle if steps else "no scale step under load"
        return not_applicable(slo.result("pass", None, reason))
    most = max((e.members_after for e in found.episodes), default=0)
    unsure = scaling.gaps_text
    if most > scaling.max_replicas:
        unsure = f"{most} members, but never more than {scaling.max_replicas} replicas wanted"
    if unsure:
        return slo.result("undetermined", None, unsure)
    reason = f"the replicas stayed at {scaling.max_replicas}"
    return not_applicable(slo.result("pass", None, reason))


def _all_steps(measures: Measures) -> list[RebalanceEpisode]:
    return [e for e in measures.rebalances.episodes if e.trigger in ("scale_up", "scale_down")]


def _under_load(steps: Sequence[RebalanceEpisode]) -> list[RebalanceEpisode]:
    """Return the steps with work to lose: an idle group cannot dip."""
    return [episode for episode in steps if episode.reason not in NO_WORK_REASONS]


def _count(steps: int) -> str:
    return f"{steps} scale step{'s' * (steps != 1)}"


def _low(value: float, noise: float | None) -> float:
    """Return the lowest possible value: noise alone reads ``noise``; if unknown, any value."""
    return 0.0 if noise is None else max(0.0, value - noise)


def _judged(
    measures: Measures,
    slo: Slo,
    *,
    value: Reading,
    noise: Reading,
    text: Callable[[RebalanceEpisode], str],
) -> SloResult:
    """Judge the worst scale step: a certain failure before a possible one."""
    steps = _under_load(_all_steps(measures))
    known = [(found, step) for step in steps if (found := value(step)) is not None]
    if known:
        limit = float("inf") if slo.limit is None else slo.limit
        most, worst = max(known, key=lambda pair: (_low(pair[0], noise(pair[1])) > limit, pair[0]))
        low = _low(most, noise(worst))
        if len(known) == len(steps) or low > limit:
            idle = len(_all_steps(measures)) - len(steps)
            reason = f"worst of {_count(len(steps))}: {_episode(measures, worst)}, {text(worst)}"
            if idle:
                reason += f"; {_count(idle)} happened in an idle group"
            return slo.compare(most, reason, low=low, high=most)
    unknown = next(step for step in steps if value(step) is None)
    reason = f"not measured in {_episode(measures, unknown)}: {unknown.reason}"
    return slo.result("undetermined", None, reason)


def _recovery(measures: Measures, slos: Slos) -> SloResult:
    """Judge the slowest recovery: a certain failure before a step that was not seen to recover."""
    slo = slo_of("rebalance_recovery_seconds", slos.rebalance_recovery_seconds)
    none = _without_occasion(measures, slo)
    if none is not None:
        return none
    limit = float("inf") if slo.limit is None else slo.limit
    steps = _under_load(_all_steps(measures))
    known = [episode for episode in steps if episode.recovery_seconds is not None]
    open_ones = [episode for episode in steps if episode.recovery_seconds is None]
    slowest = max(known, key=lambda e: (_least(e) > limit, e.recovery_seconds or 0.0), default=None)
    if slowest is not None and (not open_ones or _least(slowest) > limit):
        return _recovered(measures, slo, slowest)
    return _unrecovered(measures, slo, open_ones)


def _recovered(measures: Measures, slo: Slo, slowest: RebalanceEpisode) -> SloResult:
    seconds = slowest.recovery_seconds or 0.0
    reason = f"slowest: {_episode(measures, slowest)}"
    return slo.compare(seconds, reason, low=_least(slowest), high=seconds)


def _least(episode: RebalanceEpisode) -> float:
    """Return the shortest possible recovery: a dip that noise alone reaches needed none."""
    return (episode.recovery_seconds or 0.0) if _is_dip(episode) else 0.0


def _is_dip(episode: RebalanceEpisode) -> bool:
    """Return whether the rate surely fell below the share from which it has to recover."""
    depth = _low(episode.dip_percent or 0.0, episode.dip_noise_percent)
    return depth > 100 * (1 - RECOVERED_SHARE)


def _unrecovered(measures: Measures, slo: Slo, steps: Sequence[RebalanceEpisode]) -> SloResult:
    """Return the outcome of steps without a seen recovery: one watched beyond the limit fails."""
    late = [step for step in steps if _is_dip(step) and _is_watched_beyond(step, slo.limit)]
    shown = (late or steps)[0]
    reason = f"{_episode(measures, shown)}: {shown.reason} ({shown.observed_seconds:.1f} s)"
    return slo.result("fail" if late else "undetermined", None, reason)


def _is_watched_beyond(episode: RebalanceEpisode, limit: float | None) -> bool:
    return limit is not None and episode.observed_seconds > limit


def _standstill(measures: Measures, slos: Slos) -> SloResult:
    found, limit = measures.standstill, slos.standstill_seconds
    cost = 0.0 if found is None else found.message_seconds
    if limit is not None:
        limit = max(limit, COSTS_PER_LIMIT * cost)
    slo = slo_of("standstill_seconds", limit)
    if found is None or found.group_seconds is None:
        why = "it was not measured" if found is None else found.reason
        return slo.result("undetermined", None, why)
    if found.group_seconds:
        reason = f"work waited and nothing was done {moment(measures, found.group_started_at)}"
    else:
        reason = "the group worked whenever work waited"
    if found.partition is not None and found.partition_seconds:
        reason += (
            f"; partition {found.partition} stood longest, {found.partition_seconds:.1f} s"
            f" {moment(measures, found.partition_started_at)}"
        )
    if found.reason:
        reason += f"; {found.reason}"
    return slo.judge(measures, reason)


def _episode(measures: Measures, episode: RebalanceEpisode) -> str:
    return (
        f"episode {episode.number} {moment(measures, episode.started_at)} ({episode.trigger_text})"
    )
