"""Say in one short text why an autoscaler decided on a number of replicas."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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
    for sync in (one for one in reversed(records) if isinstance(one, HpaSync)):
        steps = (sync.spec_replicas, sync.desired) == (before, after)
        if steps and 0 <= at - sync.at <= reach and sync.proposal is not None:
            limit = _limit(sync.scaling_limited, sync.able_to_scale, after, hpa)
            if before < after and sync.proposal < after:
                limit = f"an earlier, higher request is still held, and {limit}"
            return cause(_readings(sync.metrics, reason), sync.proposal, after, limit)
    for sample in (one for one in records if isinstance(one, HpaSample)):  # it has no proposal
        if sample.desired == after and 0 <= sample.at - at <= reach and "New size" in reason:
            text = f"{_readings(sample.totals, reason)} {'above' if after > before else 'below'}"
            limits = [one for one in sample.conditions if one.startswith("ScalingLimited=True")]
            found = "".join(f"; {_limit(one, '', after, hpa)}" for one in limits)
            return f"{text} target{found}"
    return _SELECTOR.sub("", reason).removeprefix(f"New size: {after}; reason: ")


def _readings(metrics: Mapping[str, float | None], reason: str) -> str:
    """Return the metric that ``reason`` names with its value, else all of them."""
    named = {name: value for name, value in metrics.items() if name in reason} or metrics
    shown = []
    for name, value in named.items():
        kind = _BY_KEDA.match(name)
        short = name if kind is None else "lag" if kind[1] == "kafka" else kind[1]
        shown.append(f"{short} metric {'–' if value is None else format(value, ',.10g')}")
    return ", ".join(shown) or "a metric"


def _limit(limited: str, able: str, after: int, hpa: HpaSpec | None) -> str:
    """Return what held a proposal back, from the HPA's conditions (``True:ScaleUpLimit``)."""
    why = re.split("[: ]", limited)[-1] if "True" in limited else able.partition(":")[2]
    if why in _LIMITS:
        return _LIMITS[why].format(after)
    rules = None
    if hpa is not None and hpa.behavior is not None:
        is_up = why.startswith("ScaleUp")
        rules = hpa.behavior.scale_up if is_up else hpa.behavior.scale_down
    if why.endswith("Stabilized"):
        seconds = None if rules is None else rules.window_seconds
        held = f"held at {after} by the stabilization window"
        return held if seconds is None else f"{held} of {seconds} s"
    return f"limited to {after} by {_rate(rules, is_known=hpa is not None)}"


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
