"""Find easily missed effects of cron, cpu, memory and external triggers and of annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lagbench.core.keda.loop import CONTROLLER, SCALED_BY, is_handed_over
from lagbench.core.keda.object import (
    FORCE_ACTIVATION,
    PAUSED,
    PAUSED_REPLICAS,
    PAUSED_SCALE_IN,
    PAUSED_SCALE_OUT,
    CronTrigger,
    ExternalTrigger,
    KafkaTrigger,
    Trigger,
)
from lagbench.core.keda.triggers import go_boolean, is_unknown
from lagbench.core.lag_scaler import InvalidMetadata, LagRule, parse_lag_settings
from lagbench.core.policy.limits import is_lag_scaler, policy_limits
from lagbench.core.policy.review.finding import Finding, Subject, shown
from lagbench.core.policy.stream_windows import stream_windows
from lagbench.errors import WrongInput

_ADDRESS = "spec.triggers[{}].metadata.scalerAddress"
_LAG_SCALER_PORT = 6000


def other_trigger_findings(subject: Subject, trigger: Trigger) -> Iterator[Finding]:
    """Yield the findings of one trigger that is not on lag itself."""
    if isinstance(trigger.parameters, CronTrigger):
        yield from _cron(subject, trigger, trigger.parameters)
    elif isinstance(trigger.parameters, ExternalTrigger):
        yield from _external(subject, trigger, trigger.parameters)


def resource_only_findings(subject: Subject) -> Iterator[Finding]:
    """Yield a word when no trigger sees any lag."""
    limits = policy_limits(subject.manifest)
    if limits.reads_load:
        return
    happens = (
        "consumers that wait for a downstream write use little CPU, even with a long backlog: lag "
        "does not cause scaling"
    )
    if not any(item.is_resource for item in subject.spec.triggers):
        happens = f"lag does not cause scaling: at most {limits.reachable_replicas} replicas run"
    yield Finding(
        "warning",
        "lag-not-seen",
        "spec.triggers",
        ", ".join(item.type for item in subject.spec.triggers),
        happens,
        "a kafka trigger",
    )


def _cron(subject: Subject, trigger: Trigger, cron: CronTrigger) -> Iterator[Finding]:
    field = f"spec.triggers[{trigger.index}].metadata"
    try:
        ZoneInfo(cron.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        yield Finding(
            "broken",
            "timezone-unknown",
            f"{field}.timezone",
            cron.timezone,
            "unknown time zone; KEDA detects it only when it polls",
            "a name of the IANA database, such as Europe/Berlin or Etc/UTC",
        )
    floor = subject.spec.floor
    if cron.desired_replicas <= floor and subject.spec.idle_replica_count is None:
        yield Finding(
            "warning",
            "cron-under-floor",
            f"{field}.desiredReplicas",
            str(cron.desired_replicas),
            f"its hours have no effect: minReplicaCount ({floor}) pods always run",
            f"more than {floor}",
        )
    if cron.desired_replicas > subject.spec.max_replica_count:
        yield Finding(
            "warning",
            "cron-over-max",
            f"{field}.desiredReplicas",
            str(cron.desired_replicas),
            f"never more than maxReplicaCount ({subject.spec.max_replica_count})",
            f"at most {subject.spec.max_replica_count}",
        )


def _external(subject: Subject, trigger: Trigger, external: ExternalTrigger) -> Iterator[Finding]:
    written = subject.written["triggers"][trigger.index]
    address, field = external.scaler_address, _ADDRESS.format(trigger.index)
    if "://" in address:
        yield Finding(
            "broken",
            "scaler-address",
            field,
            shown(address),
            "gRPC dials host:port; a URL is a name that cannot be resolved",
            _dialled(address.split("://", 1)[1].partition("/")[0]),
        )
    elif ":" not in address:
        yield Finding(
            "warning",
            "scaler-address",
            field,
            shown(address),
            "without a port gRPC dials 443",
            _dialled(address),
        )
    if is_lag_scaler(written):
        yield from _lag_scaler(subject, trigger, external.metadata)


def _dialled(host: str) -> str:
    """Return an address with a port: its own, else that of the lag scaler."""
    return host if ":" in host else f"{host}:{_LAG_SCALER_PORT}"


def _lag_scaler(
    subject: Subject, trigger: Trigger, metadata: Mapping[str, str]
) -> Iterator[Finding]:
    field = f"spec.triggers[{trigger.index}].metadata"
    try:
        settings = parse_lag_settings(metadata)
    except InvalidMetadata as error:
        for problem in error.problems:
            if is_unknown(problem.value):
                continue
            yield Finding(
                "broken",
                "lag-scaler-refuses",
                f"{field}.{problem.field}",
                shown(problem.value),
                "the lag scaler answers INVALID_ARGUMENT: KEDA makes no HPA",
                problem.allowed,
            )
        return
    for key in settings.unknown_keys:
        yield Finding(
            "warning",
            "parameter-ignored",
            f"{field}.{key}",
            shown(metadata[key]),
            "not a parameter of the lag scaler: it ignores it",
            "leave it out",
        )
    sustain = settings.rule.sustain_seconds
    if sustain and settings.rule.lag_metric != "projected":
        yield Finding(
            "note",
            "sustain-waits",
            f"{field}.sustainSeconds",
            f"{sustain:g}",
            f"nothing scales before lag has persisted for {sustain:g} s; then the HPA's sync (15 "
            "s) "
            "and the pods' start follow",
        )
    yield from _small_backlog_sleeps(subject, field, settings.rule)


def _small_backlog_sleeps(subject: Subject, field: str, rule: LagRule) -> Iterator[Finding]:
    """Yield what scaling to zero means where only lag that persists counts as activity."""
    spec = subject.spec
    may_stop_all = spec.floor == 0 or spec.idle_replica_count == 0
    has_other_waker = any(isinstance(item.parameters, KafkaTrigger) for item in spec.triggers)
    if not may_stop_all or has_other_waker:
        return
    unit = "s of age" if rule.lag_metric == "seconds" else "records"
    place = "in total" if rule.lag_scope == "total" else "on one partition"
    stands = f" for {rule.sustain_seconds:g} s" if rule.sustain_seconds else ""
    yield Finding(
        "warning",
        "small-backlog-sleeps",
        f"{field}.lagThreshold",
        f"{rule.lag_threshold:,}",
        f"with no pod running, a backlog below {rule.lag_threshold:,} {unit} {place} starts none "
        f"and is never read: only lag at that level{stands} counts as activity",
        "minReplicaCount: 1, or a kafka trigger beside it that starts the first pod",
    )


def window_findings(manifest: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield cron windows that no plan and no run accepts; KEDA does not read the annotation."""
    try:
        stream_windows(manifest, where="policy")
    except WrongInput as problem:
        yield Finding(
            "broken",
            "cron-windows",
            problem.field,
            shown(problem.value),
            "no run and no plan starts with it; KEDA does not read it",
            problem.allowed,
        )


def annotation_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what annotations hold back or force, and values that are not booleans."""
    annotations = (subject.manifest.get("metadata") or {}).get("annotations") or {}
    effects = {
        PAUSED: "the HPA is deleted and the replicas do not change",
        PAUSED_SCALE_IN: "never scales down",
        PAUSED_SCALE_OUT: "never scales up",
        FORCE_ACTIVATION: "never goes to 0 (or idle); the metric does not change",
    }
    for name, effect in effects.items():
        if name not in annotations:
            continue
        field, value = f"metadata.annotations.{name}", str(annotations[name])
        if go_boolean(value) is None:
            yield Finding(
                "warning",
                "annotation-not-boolean",
                field,
                shown(value),
                f"is not a Go boolean and counts as true: {effect}",
                '"true" or "false"',
            )
        elif go_boolean(value) and name == PAUSED and is_handed_over(subject.manifest):
            happens = f"KEDA does not act; only a running {CONTROLLER} scales"
            yield Finding("note", "handed-over", field, value, happens)
        elif go_boolean(value):
            yield Finding("warning", "scaling-held", field, value, effect, "remove it to scale")
    if is_handed_over(subject.manifest) and not subject.spec.annotations.is_paused:
        yield Finding(
            "broken",
            "two-controllers",
            f"metadata.annotations.{SCALED_BY}",
            CONTROLLER,
            "KEDA also scales the target, so the named controller exits",
            f'{PAUSED}: "true" beside it',
        )
    if PAUSED_REPLICAS in annotations:
        field, value = f"metadata.annotations.{PAUSED_REPLICAS}", str(annotations[PAUSED_REPLICAS])
        problem = subject.spec.annotations.paused_replicas_problem
        if problem:
            yield Finding(
                "broken",
                "paused-replicas",
                field,
                shown(value),
                f"KEDA deletes the HPA, then fails: {problem}",
                "a whole number",
            )
        else:
            yield Finding(
                "warning",
                "scaling-held",
                field,
                value,
                f"the HPA is deleted and the target set to {value} replicas",
                "remove it to scale",
            )
