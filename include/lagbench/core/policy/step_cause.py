"""Say in one short text why an autoscaler decided on a number of replicas."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lagbench.core.hpa.hpa_object import HpaSpec, ScalingRules
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import HpaSync
from lagbench.core.telemetry.records_of_recorder import HpaSample

_REACH_SECONDS = 5.0
"""A step follows its sync at once; the recorder reads the status of the HPA every second."""
_BY_KEDA = re.compile(r"s\d+-([a-z]+)-")
_SELECTOR = re.compile(r"\(&LabelSelector.*?\}\)")
_LIMITS = {
    "TooManyReplicas": "limited to {} by the policy's maximum",
    "TooFewReplicas": "raised to {} by the policy's minimum",
}


def cause(requested_by: str, wanted: int, decided: int, limit: str) -> str:
    """Return what requested how many pods, and what ``limit`` made of it (with its verb)."""
    text = f"{requested_by} requests {wanted:,} {'pod' if wanted == 1 else 'pods'}"
    return text if wanted == decided else f"{text}; {limit}"


def bounded_cause(requested_by: str, wanted: int, least: int, most: int) -> str:
    """Return the cause of a decision that only the bounds of a policy limit."""
    decided = min(max(wanted, least), most)
    why = "TooManyReplicas" if wanted > most else "TooFewReplicas"
    return cause(requested_by, wanted, decided, _LIMITS[why].format(decided))


def step_cause(
    records: Sequence[TelemetryRecord],
    hpa: HpaSpec | None,
    *,
    at: int,
    before: int,
    after: int,
    reason: str,
) -> str:
    """Return why the replicas went from ``before`` to ``after``; empty: it is not known.

    :param records: by instant; of them count ``HpaSync`` and ``HpaSample``.
    :param hpa: the HPA in force, whose rules the text names; None: they are not known.
    :param at: of the step, in unix nanoseconds of the clock of ``records``.
    :param reason: what the step's writer gave, as ``ReplicaChange.reason``.
    """
    reach = _REACH_SECONDS * NS_PER_SECOND
    for record in reversed(records):
        if (
            isinstance(record, HpaSync)
            and 0 <= at - record.at <= reach
            and (record.spec_replicas, record.desired) == (before, after)
        ):
            return _of_sync(record, after, reason, hpa)
    for record in records:
        if (
            isinstance(record, HpaSample)
            and 0 <= record.at - at <= reach
            and record.desired == after
            and "New size" in reason
        ):
            return _of_sample(record, before, after, reason, hpa)
    return _SELECTOR.sub("", reason).removeprefix(f"New size: {after}; reason: ")


def _of_sync(sync: HpaSync, after: int, reason: str, hpa: HpaSpec | None) -> str:
    if sync.proposal is None:
        return _SELECTOR.sub("", reason)
    requested_by = _readings(sync.metrics, reason)
    able, limited = (text.partition(":")[2] for text in (sync.able_to_scale, sync.scaling_limited))
    is_limited = sync.scaling_limited.startswith("True")
    limit = _limit(able, limited if is_limited else "", after, hpa)
    return cause(requested_by, sync.proposal, after, limit)


def _of_sample(sample: HpaSample, before: int, after: int, reason: str, hpa: HpaSpec | None) -> str:
    """Return what the status of a foreign HPA shows: its readings, and no proposal."""
    above = "above" if after > before else "below"
    text = f"{_readings(dict(sample.totals), reason)} {above} target"
    for condition in sample.conditions:
        head, _, why = condition.partition(" ")
        if head == "ScalingLimited=True":
            return f"{text}; {_limit('', why, after, hpa)}"
    return text


def _readings(metrics: dict[str, float] | dict[str, float | None], reason: str) -> str:
    """Return the metric that ``reason`` names with its value, else all of them."""
    named = {name: value for name, value in metrics.items() if name in reason} or metrics
    shown = []
    for name, value in named.items():
        kind = _BY_KEDA.match(name)
        short = name if kind is None else "lag" if kind[1] == "kafka" else kind[1]
        shown.append(f"{short} metric {'–' if value is None else format(value, ',.10g')}")
    return ", ".join(shown) or "a metric"


def _limit(able: str, limited: str, after: int, hpa: HpaSpec | None) -> str:
    """Return what held a proposal back, from the reasons of the HPA's conditions."""
    rules = None
    if hpa is not None and hpa.behavior is not None:
        is_up = limited == "ScaleUpLimit" or able == "ScaleUpStabilized"
        rules = hpa.behavior.scale_up if is_up else hpa.behavior.scale_down
    if limited in _LIMITS:
        return _LIMITS[limited].format(after)
    if limited in ("ScaleUpLimit", "ScaleDownLimit"):
        return f"limited to {after} by {_rate(rules, is_known=hpa is not None)}"
    if able.endswith("Stabilized"):
        held = f"held at {after} by the stabilization window"
        is_known = rules is not None and rules.window_seconds is not None
        return f"{held} of {rules.window_seconds} s" if rules and is_known else held
    return f"set to {after}"


def _rate(rules: ScalingRules | None, *, is_known: bool) -> str:
    """Return the rates of ``behavior``, or those of an HPA without one."""
    if rules is None:
        return "doubling at most (no behavior)" if is_known else "the HPA's rates"
    shown = [
        f"{item.value} {'%' if item.type == 'Percent' else 'pods' if item.value > 1 else 'pod'}"
        f" per {item.period_seconds} s"
        for item in rules.policies
    ]
    if len(shown) == 1:
        return shown[0]
    return f"the {'lower' if rules.select_policy == 'Min' else 'higher'} of {' and '.join(shown)}"
