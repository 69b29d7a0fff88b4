"""Which of KEDA's and the HPA's clocks a policy's times belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.hpa import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    HpaBehavior,
    ScalingRules,
    controller_flags,
    parse_behavior,
)
from lagbench.core.policy.admission import polling_interval_decides
from lagbench.core.policy.review.finding import Finding, Subject, shown

_DEFAULT_WINDOW_SECONDS = 300
_SHORT_WINDOW_SECONDS = 30
_DOUBLING_PERCENT, _TRIPLING_PERCENT = 100, 200
_BEHAVIOR = "spec.advanced.horizontalPodAutoscalerConfig.behavior"


def controller_flag_findings(subject: Subject) -> Iterator[Finding]:
    """Yield flags of the HPA's controller, which Kubernetes does not read from an object."""
    annotations = (subject.manifest.get("metadata") or {}).get("annotations") or {}
    for name in (SYNC_ANNOTATION, TOLERANCE_ANNOTATION):
        if name in annotations:
            yield Finding(
                "note",
                "own-controller-only",
                f"metadata.annotations.{name}",
                str(annotations[name]),
                "only lagbench's controller reads it: kube-controller-manager has one value for "
                "all HPAs, and a managed cluster does not let you set it",
            )


def timing_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the times of KEDA's own loop that decide nothing here, or less than they seem to."""
    spec, written = subject.spec, subject.written
    interval = written.get("pollingInterval")
    sync_seconds = sync_seconds_of(subject.manifest)
    always_up = spec.floor > 0 and spec.idle_replica_count is None
    if interval is not None and not polling_interval_decides(written):
        yield Finding(
            "warning",
            "polling-interval-ignored",
            "spec.pollingInterval",
            shown(interval),
            f"decides nothing with minReplicaCount {spec.floor}: the HPA reads the lag itself, "
            f"every {sync_seconds:g} s; KEDA's own loop only refreshes the status",
            "leave it out",
        )
    elif interval is not None and not always_up:
        yield Finding(
            "note",
            "polling-interval-from-zero",
            "spec.pollingInterval",
            shown(interval),
            f"is the clock from 0 (or idle) only; from 1 on it is the HPA's {sync_seconds:g} s",
        )
    for name in ("cooldownPeriod", "initialCooldownPeriod"):
        if written.get(name) is not None and always_up:
            yield Finding(
                "warning",
                f"{'initial-' if name.startswith('i') else ''}cooldown-ignored",
                f"spec.{name}",
                shown(written[name]),
                f"decides nothing with minReplicaCount {spec.floor}: it applies to the step to 0 "
                "(or "
                "idleReplicaCount)",
                f"leave it out; the speed of scale-down is set by {_BEHAVIOR}.scaleDown",
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


def sync_seconds_of(manifest: Mapping[str, Any]) -> float:
    """Return the time between two syncs of the policy's HPA, by its annotation if it has one."""
    return controller_flags(manifest, where="policy").sync_seconds_in_force


def behavior_findings(
    given: Mapping[str, Any] | None,
    field: str = _BEHAVIOR,
    *,
    sync_seconds: float,
    pause_seconds: float | None = None,
) -> Iterator[Finding]:
    """Yield what a ``behavior`` block does, or its absence, that is easily missed.

    :param sync_seconds: the time between two syncs of the HPA.
    :param pause_seconds: the longest time between two bursts; None: not known.
    """
    if given is None:
        yield Finding(
            "note",
            "no-behavior",
            field,
            "(absent)",
            "the HPA's older limits apply: at most max(2 x current, 4) replicas per sync, and down "
            f"in one step {_DEFAULT_WINDOW_SECONDS} s after the last sync with a higher proposal",
        )
        yield from _down_window(_DEFAULT_WINDOW_SECONDS, field, pause_seconds, sync_seconds)
        return
    parsed = parse_behavior(given, where="policy", field=field)
    if parsed is not None:
        yield from _windows(parsed, field, pause_seconds, sync_seconds)
        yield from _percents(parsed.scale_up, field)
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
                "leave it out, or check that the gate is on",
            )
        if rules.get("policies") == []:
            yield Finding(
                "warning",
                "policies-empty",
                f"{field}.{side}.policies",
                "[]",
                "counts as not set: the defaults (100 % per 15 s, up also 4 pods) come back",
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


def _windows(
    behavior: HpaBehavior, field: str, pause_seconds: float | None, sync_seconds: float
) -> Iterator[Finding]:
    up, down = behavior.scale_up.window_seconds, behavior.scale_down.window_seconds
    if up:
        yield Finding(
            "note",
            "up-window-waits",
            f"{field}.scaleUp.stabilizationWindowSeconds",
            str(up),
            f"the HPA uses the lowest proposal of the last {up} s: it reacts {up} s later, and a "
            "shorter spike does not scale at all",
        )
    if behavior.scale_down.select_policy != "Disabled":
        seconds = _DEFAULT_WINDOW_SECONDS if down is None else down
        yield from _down_window(seconds, field, pause_seconds, sync_seconds)


def _down_window(
    seconds: int, field: str, pause_seconds: float | None, sync_seconds: float
) -> Iterator[Finding]:
    """Yield a window that ends between two bursts; without a known pause, one that is just short.

    The desired replicas fall when the backlog of a burst has drained, so the window begins within
    the pause.
    """
    where = f"{field}.scaleDown.stabilizationWindowSeconds"
    if pause_seconds is not None and seconds < pause_seconds:
        yield Finding(
            "warning",
            "down-window-under-pause",
            where,
            str(seconds),
            f"bursts are up to {pause_seconds:g} s apart: once a backlog is drained, pods leave "
            f"after {seconds} s and start again for the next burst, each time with a rebalance",
            f"more than {pause_seconds:g}, unless the pods are meant to leave in the pause",
        )
    elif pause_seconds is None and seconds <= _SHORT_WINDOW_SECONDS:
        yield Finding(
            "warning",
            "down-window-short",
            where,
            str(seconds),
            f"the highest proposal of {seconds} s, at most "
            f"{int(seconds // sync_seconds) + 1} syncs: pods "
            "leave in the pause between two bursts and start again for the next",
            "longer than the pause between bursts; 300 is the default",
        )


def _percents(up: ScalingRules, field: str) -> Iterator[Finding]:
    """Yield the percentages that are easily read as the whole, not as what is added to it."""
    for index, rule in enumerate(up.policies):
        if rule.type != "Percent" or rule.value <= _DOUBLING_PERCENT:
            continue
        times = 1 + rule.value / 100
        named = " (it triples)" if rule.value == _TRIPLING_PERCENT else ""
        yield Finding(
            "note",
            "percent-is-added",
            f"{field}.scaleUp.policies[{index}].value",
            str(rule.value),
            f"{rule.value} % are added to the current number: up to {times:g} times the replicas"
            f"{named} per {rule.period_seconds} s",
            f"{_DOUBLING_PERCENT} doubles",
        )
