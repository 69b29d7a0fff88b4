"""Which of KEDA's and the HPA's clocks a policy's times belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.admission.webhook import polling_interval_decides
from lagbench.core.hpa_behavior import HpaBehavior, parse_behavior
from lagbench.core.policy_review.finding import Finding, Subject, shown

_SYNC_SECONDS = 15
_DEFAULT_WINDOW_SECONDS = 300
_SHORT_WINDOW_SECONDS = 30
_BEHAVIOR = "spec.advanced.horizontalPodAutoscalerConfig.behavior"


def timing_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the times of KEDA's own loop that decide nothing here, or less than they seem to."""
    spec, written = subject.spec, subject.written
    interval = written.get("pollingInterval")
    always_up = spec.floor > 0 and spec.idle_replica_count is None
    if interval is not None and not polling_interval_decides(written):
        yield Finding(
            "warning",
            "polling-interval-ignored",
            "spec.pollingInterval",
            shown(interval),
            f"decides nothing with minReplicaCount {spec.floor}: the HPA reads the lag itself, "
            f"every {_SYNC_SECONDS} s; KEDA's own loop only refreshes the status",
            "leave it out",
        )
    elif interval is not None and not always_up:
        yield Finding(
            "note",
            "polling-interval-from-zero",
            "spec.pollingInterval",
            shown(interval),
            f"is the clock from 0 (or idle) only; from 1 on it is the HPA's {_SYNC_SECONDS} s",
        )
    for name in ("cooldownPeriod", "initialCooldownPeriod"):
        if written.get(name) is not None and always_up:
            yield Finding(
                "warning",
                f"{'initial-' if name.startswith('i') else ''}cooldown-ignored",
                f"spec.{name}",
                shown(written[name]),
                f"decides nothing with minReplicaCount {spec.floor}: it is for the way to 0 (or "
                "idleReplicaCount)",
                f"leave it out; how fast it scales down is {_BEHAVIOR}.scaleDown",
            )
    for trigger in spec.triggers:
        if trigger.uses_cached_metrics:
            yield Finding(
                "note",
                "cached-metrics",
                f"spec.triggers[{trigger.index}].useCachedMetrics",
                "true",
                f"the HPA sees a value up to {spec.polling_interval_seconds} s old",
            )


def behavior_findings(given: Mapping[str, Any] | None, field: str = _BEHAVIOR) -> Iterator[Finding]:
    """Yield what a ``behavior`` block does, or its absence, that is easily missed."""
    if given is None:
        yield Finding(
            "note",
            "no-behavior",
            field,
            "(absent)",
            "the HPA's older limits apply: at most max(2 x current, 4) replicas per sync, and down "
            f"in one step {_DEFAULT_WINDOW_SECONDS} s after the last sync that wanted more",
        )
        return
    parsed = parse_behavior(given, where="policy", field=field)
    if parsed is not None:
        yield from _windows(parsed, field)
    for side in ("scaleUp", "scaleDown"):
        rules = given.get(side) or {}
        if rules.get("tolerance") is not None:
            yield Finding(
                "warning",
                "tolerance-ignored",
                f"{field}.{side}.tolerance",
                shown(rules["tolerance"]),
                "dropped by the API server while the feature gate HPAConfigurableTolerance is off, "
                "as it is by default: the tolerance stays 10 %",
                "leave it out, or ask whether the gate is on",
            )
        if rules.get("policies") == []:
            yield Finding(
                "warning",
                "policies-empty",
                f"{field}.{side}.policies",
                "[]",
                "counts as not given: the defaults (100 % per 15 s, up also 4 pods) come back",
                "leave it out",
            )
        if rules.get("selectPolicy") == "Disabled":
            yield Finding(
                "warning",
                f"{'up' if side == 'scaleUp' else 'down'}-disabled",
                f"{field}.{side}.selectPolicy",
                "Disabled",
                f"the HPA never scales {'up' if side == 'scaleUp' else 'down'}",
            )


def _windows(behavior: HpaBehavior, field: str) -> Iterator[Finding]:
    up, down = behavior.scale_up.window_seconds, behavior.scale_down.window_seconds
    if up:
        yield Finding(
            "note",
            "up-window-waits",
            f"{field}.scaleUp.stabilizationWindowSeconds",
            str(up),
            f"the HPA takes the lowest wish of the last {up} s: it reacts {up} s later, and a "
            "shorter spike does not scale at all",
        )
    if down is not None and down <= _SHORT_WINDOW_SECONDS:
        yield Finding(
            "warning",
            "down-window-short",
            f"{field}.scaleDown.stabilizationWindowSeconds",
            str(down),
            f"the highest wish of {down} s, at most {down // _SYNC_SECONDS + 1} syncs: pods leave "
            "in the pause between two bursts and come back for the next",
            "longer than the pause between bursts; 300 is the default",
        )
