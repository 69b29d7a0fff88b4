"""The lag per replica against what a pod does and what was promised."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lagbench.core.policy.limits import policy_limits
from lagbench.core.policy.review.finding import Finding, PolicyContext, Subject

# A quarter of the promise is left for the reaction: a sync, a pod's start, a rebalance.
SHARE_OF_SLO = 0.75
_NEAR = 1.25
_FIELD = "lagThreshold"


def suggest_lag_threshold(pod_rate: float, slo_seconds: float) -> int:
    """Return rate x SLO x 0.75: what one pod may have to do and still keep the promise."""
    return max(1, round(pod_rate * slo_seconds * SHARE_OF_SLO))


def threshold_findings(subject: Subject) -> Iterator[Finding]:
    """Yield how the threshold stands to the rate, the promise and the noise at rest."""
    limits, context = policy_limits(subject.manifest), subject.context
    threshold = limits.scales_at_records
    if threshold is None:
        return
    if context.pod_rate is not None and context.slo_seconds is not None:
        sync = limits.flags.sync_seconds_in_force
        yield from _against_slo(threshold, context.pod_rate, context.slo_seconds, sync)
    if context.base_rate is not None:
        tolerated = 1 + limits.flags.tolerance_in_force
        held = threshold * limits.started_replicas * tolerated
        rate, floor = context.base_rate, limits.started_replicas
        seconds = context.consumer.lag_at_rest_seconds(rate, floor)
        at_rest = rate * seconds
        if held < at_rest < math.inf:
            least = round(at_rest / (limits.started_replicas * tolerated))
            yield Finding(
                "warning",
                "scales-on-noise",
                _FIELD,
                f"{threshold:,.10g}",
                f"{at_rest:,.0f} messages {_why_they_wait(context, seconds)} at rest, and the "
                f"floor of {limits.started_replicas} may hold {held:,.0f}: it scales without a "
                "spike",
                f"lagThreshold above {least:,}",
            )


def _why_they_wait(context: PolicyContext, seconds: float) -> str:
    if context.consumer.kind != "spark":
        return "wait between two commits"
    return f"(up to {seconds:.1f} s of a batch and its trigger) are published as lag"


def _against_slo(
    threshold: float, rate: float, slo_seconds: float, sync_seconds: float
) -> Iterator[Finding]:
    suggested = suggest_lag_threshold(rate, slo_seconds)
    takes = threshold / rate
    if takes > slo_seconds:
        yield Finding(
            "warning",
            "threshold-breaks-slo",
            _FIELD,
            f"{threshold:,.10g}",
            f"a pod of {rate:,.0f}/s needs {takes:,.1f} s for it: the policy tolerates more than "
            f"the SLO of {slo_seconds:g} s",
            _advice(suggested, rate, slo_seconds, sync_seconds),
        )
    elif not suggested / _NEAR <= threshold <= suggested * _NEAR:
        side = "below" if threshold < suggested else "above"
        yield Finding(
            "note",
            "threshold-suggestion",
            _FIELD,
            f"{threshold:,.10g}",
            f"{takes:,.2g} s of one pod's work, {side} the {SHARE_OF_SLO:.0%} of the promise "
            f"({slo_seconds:g} s) that it may take",
            _advice(suggested, rate, slo_seconds, sync_seconds),
        )


def _advice(suggested: int, rate: float, slo_seconds: float, sync_seconds: float) -> str:
    """Return the suggestion; a short SLO leads to a threshold at which the replicas swing."""
    text = f"lagThreshold: {suggested:,} ({rate:,.0f}/s x {slo_seconds:g} s x {SHARE_OF_SLO})"
    gain = sync_seconds * rate / suggested
    if gain <= 1:
        return text
    return f"{text}, with a scale-down window: its loop gain of {gain:.1f} is above 1"
