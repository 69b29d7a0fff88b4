"""Effects of an object's own fields: replicas, clocks, behavior, failures, target, annotations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from lag_scaler.keda_values import divisors, go_boolean
from lagbench.core.hpa.controller_flags import (
    SYNC_ANNOTATION,
    TOLERANCE_ANNOTATION,
    ControllerFlags,
)
from lagbench.core.hpa.hpa_object import HpaBehavior, parse_behavior
from lagbench.core.keda.loop.keda_hpa import CONTROLLER, SCALED_BY, is_handed_over
from lagbench.core.keda.object.scaled_object_rules import formula_of
from lagbench.core.keda.object.scaled_object_spec import (
    FORCE_ACTIVATION,
    PAUSED,
    PAUSED_REPLICAS,
    PAUSED_SCALE_IN,
    PAUSED_SCALE_OUT,
    Fallback,
    ScalingModifiers,
    Trigger,
)
from lagbench.core.keda.triggers.kafka_parameters import KafkaTrigger
from lagbench.core.keda.triggers.trigger_parameters import Outage
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES
from lagbench.core.policy.admission.webhook import polling_interval_decides
from lagbench.core.policy.finding import Finding, shown
from lagbench.core.policy.review.cluster_facts import mapping
from lagbench.core.policy.review.finding_texts import found
from lagbench.core.policy.review.subject import Subject, climb

_MAX, _TARGET, _FALLBACK = "spec.maxReplicaCount", "spec.scaleTargetRef", "spec.fallback"
_BEHAVIOR = "spec.advanced.horizontalPodAutoscalerConfig.behavior"
_FORMULA = "spec.advanced.scalingModifiers.formula"
_DEFAULT_WINDOW_SECONDS, _SHORT_WINDOW_SECONDS = 300, 30
_DOUBLING_PERCENT, _TRIPLING_PERCENT = 100, 200
_DEFAULT_GRACE_SECONDS = 30  # of Kubernetes
_LONGEST_SHOWN_FORMULA = 40
_WITHOUT_SCALE = frozenset(
    {
        *(("apps/v1", kind) for kind in ("DaemonSet", "ControllerRevision")),
        *(("batch/v1", kind) for kind in ("Job", "CronJob")),
        *(("v1", kind) for kind in ("Pod", "Service")),
    }
)


def replica_findings(subject: Subject) -> Iterator[Finding]:
    """Yield which counts a policy reaches, and which it cannot."""
    spec, written, limits, found = subject.spec, subject.written, subject.limits, subject.found
    if "minReplicaCount" not in written and not spec.has_only_resources:
        yield found("min-absent", "spec.minReplicaCount")
    if "maxReplicaCount" not in written:
        yield found("max-absent", _MAX)
    if spec.idle_replica_count:
        yield found("idle-flaps", "spec.idleReplicaCount")
    partitions = subject.context.partitions
    if partitions is None:
        return
    empty = [one for one in limits.of_triggers if not one.counted(partitions)]
    for one in empty:
        field = f"spec.triggers[{one.index}].metadata.partitionLimitation"
        yield found("limitation-keeps-none", field, partitions=partitions, last=partitions - 1)
    if empty:
        return
    counted, only = limits.counted_partitions(partitions), spec.triggers[0].parameters
    is_even = isinstance(only, KafkaTrigger) and only.ensure_even_distribution_of_partitions
    if len(spec.triggers) == 1 and is_even:
        counts = ", ".join(str(n) for n in divisors(counted) if n <= spec.max_replica_count)
        field = "spec.triggers[0].metadata.ensureEvenDistributionOfPartitions"
        yield found("even-counts", field, partitions=counted, counts=counts)
    elif limits.reads_load and limits.lag_threshold_records is not None and not limits.has_formula:
        yield from _partitions(subject, partitions, counted)


def _partitions(subject: Subject, partitions: int, counted: int) -> Iterator[Finding]:
    limits, found = subject.limits, subject.found
    ceiling, leaks = limits.ceiling_replicas, limits.leaks_one_replica
    for one in limits.of_triggers:
        asked = min(one.fixed or 0, ceiling)
        if asked > counted:
            field = f"spec.triggers[{one.index}].metadata.desiredReplicas"
            idle = asked - counted
            yield found("cron-over-partitions", field, asked=asked, idle=idle, partitions=counted)
    most = limits.most_requested(partitions)
    if ceiling > counted and most is None:
        unlimited = [one for one in limits.of_triggers if one.most(partitions) is None]
        yield found(
            "max-over-partitions",
            _MAX,
            str(ceiling),
            idle=ceiling - counted,
            partitions=counted,
            names=", ".join(f"{one.type} (trigger {one.index})" for one in unlimited),
            more="" if limits.is_capped_at_partitions else ", and allowIdleConsumers left out",
        )
    elif most is not None and ceiling > (most if most > counted + 1 else counted):
        key = "hours" if most > counted + leaks else "leaks" if leaks else "capped"
        yield found(f"max-over-partitions/{key}", _MAX, str(ceiling), most=most, partitions=counted)
    if limits.is_capped_at_partitions:
        yield from _sticking(subject, counted)


def _sticking(subject: Subject, partitions: int) -> Iterator[Finding]:
    """Yield the counts at which the HPA takes the cap for near enough."""
    tolerance, most = subject.limits.flags.tolerance_in_force, subject.spec.max_replica_count
    top = min(partitions, most)  # the ceiling cuts off the rest
    started = subject.limits.started_replicas
    stuck = [n for n in range(started, top) if partitions / n <= 1 + tolerance]
    path = climb(subject, wish=partitions) if stuck else ()
    if not path or (path[-1] < stuck[-1] and path[-1] not in stuck):
        return
    yield subject.found(
        "cap-sticks" if path[-1] in stuck else "cap-sticks/jumps",
        _MAX,
        str(most),
        counts=", ".join(map(str, stuck)),
        partitions=partitions,
        tolerance=100 * tolerance,
        least=ceil(partitions / (1 + tolerance)),
        way=" → ".join(map(str, path)),
        top=top,
        last=path[-1],
    )


def timing_findings(subject: Subject) -> Iterator[Finding]:
    """Yield the times of KEDA's own loop that decide nothing here, or less than they seem to."""
    spec, written, found = subject.spec, subject.written, subject.found
    always_up = spec.floor > 0 and spec.idle_replica_count is None
    if written.get("pollingInterval") is not None:
        if not polling_interval_decides(written):
            yield found("polling-interval-ignored", "spec.pollingInterval")
        elif not always_up:
            yield found("polling-interval-from-zero", "spec.pollingInterval")
    keys = {"cooldownPeriod": "cooldown", "initialCooldownPeriod": "initial-cooldown"}
    for name, key in keys.items():
        if written.get(name) is not None and always_up:
            yield found(f"{key}-ignored", f"spec.{name}")
    for trigger in spec.triggers:
        if trigger.uses_cached_metrics:
            yield found("cached-metrics", f"spec.triggers[{trigger.index}].useCachedMetrics")
    for name in (SYNC_ANNOTATION, TOLERANCE_ANNOTATION):
        if name in subject.annotations:
            value = str(subject.annotations[name])
            yield found("own-controller-only", f"metadata.annotations.{name}", value)


def behavior_findings(
    given: Mapping[str, Any] | None,
    flags: ControllerFlags,
    pause_seconds: float | None,
    field: str = _BEHAVIOR,
) -> Iterator[Finding]:
    """Yield what a ``behavior`` block does, or its absence, that is easily missed.

    :param pause_seconds: the longest time between two bursts; None: not known.
    """
    sync = flags.sync_seconds_in_force
    if given is None:
        yield found("no-behavior", field, "(absent)", seconds=_DEFAULT_WINDOW_SECONDS)
        yield from _down_window(_DEFAULT_WINDOW_SECONDS, field, pause_seconds, sync)
        return
    parsed = parse_behavior(given, where="policy", field=field)
    if parsed is not None:
        yield from _steps(parsed, field, pause_seconds, sync)
    for side, name in (("scaleUp", "up"), ("scaleDown", "down")):
        rules, place = given.get(side) or {}, f"{field}.{side}"
        if rules.get("tolerance") is not None:
            yield found("tolerance-ignored", f"{place}.tolerance", shown(rules["tolerance"]))
        if rules.get("policies") == []:
            yield found("policies-empty", f"{place}.policies", "[]")
        if rules.get("selectPolicy") == "Disabled":
            yield found(f"{name}-disabled", f"{place}.selectPolicy", "Disabled")


def _steps(
    behavior: HpaBehavior, field: str, pause_seconds: float | None, sync: float
) -> Iterator[Finding]:
    up, down = behavior.scale_up, behavior.scale_down
    if up.window_seconds:
        place, seconds = f"{field}.scaleUp.stabilizationWindowSeconds", up.window_seconds
        yield found("up-window-waits", place, str(seconds), seconds=seconds)
    if down.select_policy != "Disabled":
        seconds = _DEFAULT_WINDOW_SECONDS if down.window_seconds is None else down.window_seconds
        yield from _down_window(seconds, field, pause_seconds, sync)
    for index, rule in enumerate(up.policies):
        # Easily read as the whole, not as what is added to it.
        if rule.type == "Percent" and rule.value > _DOUBLING_PERCENT:
            yield found(
                "percent-is-added",
                f"{field}.scaleUp.policies[{index}].value",
                str(rule.value),
                percent=rule.value,
                times=1 + rule.value / 100,
                named=" (it triples)" if rule.value == _TRIPLING_PERCENT else "",
                seconds=rule.period_seconds,
            )


def _down_window(seconds: int, field: str, pause: float | None, sync: float) -> Iterator[Finding]:
    """Yield a window that ends between two bursts; without a known pause, one that is just short.

    The desired replicas fall when the backlog of a burst has drained, so the window begins within
    the pause.
    """
    where = f"{field}.scaleDown.stabilizationWindowSeconds"
    if pause is not None and seconds < pause:
        yield found("down-window-under-pause", where, str(seconds), pause=pause, seconds=seconds)
    elif pause is None and seconds <= _SHORT_WINDOW_SECONDS:
        syncs = int(seconds // sync) + 1
        yield found("down-window-short", where, str(seconds), seconds=seconds, syncs=syncs)


def failure_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what happens when a broker, a server or one of several triggers fails.

    Here KEDA 2.21 differs from its documentation.
    """
    spec, found, field = subject.spec, subject.found, "spec.triggers"
    polled = [item for item in spec.triggers if not item.is_resource]
    remote = [item for item in polled if _outage(item) != "none"]
    blocking = [item for item in remote if _outage(item) != "reading"]
    if spec.fallback is not None:
        yield from _fallback(subject, spec.fallback)
    if remote and len(spec.triggers) > 1:
        if blocking and len(polled) > 1:
            names = ", ".join(f"{item.type} (trigger {item.index})" for item in blocking)
            yield found("failing-trigger-blocks", field, names)
        elif len(polled) == 1 and not _engages(spec.valid_fallback, remote[0]):
            resources = ", ".join(item.type for item in spec.triggers if item.is_resource)
            kind = remote[0].type
            facts = {"kind": kind, "resources": resources}
            yield found("resource-holds-one-way", field, f"{kind}, {resources}", **facts)
    if blocking and len(spec.triggers) > 1:
        yield found("source-down-at-creation", field, f"{len(spec.triggers)} triggers")
    if spec.modifiers is not None:
        yield from _composite(subject, spec.modifiers)


def _outage(trigger: Trigger) -> Outage:
    return TRIGGER_TYPES[trigger.type].outage


def _engages(fallback: Fallback | None, remote: Trigger) -> bool:
    """Return whether a fallback applies to a source that is down: see ``_fallback``."""
    if fallback is None or _outage(remote) == "metric names":
        return False
    return _outage(remote) == "reading" or fallback.failure_threshold == 0


def _fallback(subject: Subject, fallback: Fallback) -> Iterator[Finding]:
    spec, found = subject.spec, subject.found
    outages = {_outage(item) for item in spec.triggers}
    if spec.valid_fallback is None:
        yield found("fallback-void", _FALLBACK)
        return
    if "scaler" in outages and fallback.failure_threshold > 0:
        yield found("fallback-broker-down", f"{_FALLBACK}.failureThreshold")
    if "metric names" in outages:
        yield found("fallback-external", _FALLBACK)
    if fallback.replicas == 0:
        yield found("fallback-to-zero", f"{_FALLBACK}.replicas", "0")
    if fallback.replicas > spec.max_replica_count:
        yield found("fallback-over-max", f"{_FALLBACK}.replicas")


def _composite(subject: Subject, modifiers: ScalingModifiers) -> Iterator[Finding]:
    spec, found, formula = subject.spec, subject.found, modifiers.formula
    partitions, named = subject.context.partitions, formula.strip()
    more = "; a trigger that fails fails the whole formula" if len(spec.triggers) > 1 else ""
    yield found("composite-targets", _FORMULA, more=more)
    kafka = next((t.parameters for t in spec.triggers if t.name and t.name == named), None)
    if isinstance(kafka, KafkaTrigger) and partitions is not None:
        is_capped = not kafka.allow_idle_consumers or kafka.ensure_even_distribution_of_partitions
        most = max(1, ceil(partitions * kafka.target_milli / modifiers.target_milli))
        is_low = most < min(partitions, spec.max_replica_count)
        if is_capped and is_low and modifiers.metric_type != "Value":
            yield found(
                "composite-capped",
                _FORMULA,
                partitions=partitions,
                threshold=kafka.lag_threshold,
                target=modifiers.target,
                most=most,
                instead=ceil(modifiers.target_milli / 1000),
            )
    # Lag triggers have values of 0 or more.
    if formula_of(subject.written).may_be_negative:
        short = formula if len(formula) <= _LONGEST_SHOWN_FORMULA else "..."
        yield found("composite-negative", _FORMULA, formula=short)


def target_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what of the target and of the logins is not there, as far as that is known."""
    spec, around, found = subject.spec, subject.known_objects, subject.found
    target, cluster, name = spec.target, around.cluster, f"{_TARGET}.name"
    if (target.api_version, target.kind) in _WITHOUT_SCALE:
        yield found("target-not-scalable", f"{_TARGET}.kind")
    if around.lacks_target:
        yield found("target-missing/file", name, kind=target.kind)
    if target.api_version == "apps/v1" and cluster.lacks_workload(target.kind, target.name):
        yield found("target-missing", name, kind=target.kind)
    workload = cluster.workload(target.kind, target.name)
    if workload is not None:
        pod = mapping(mapping(mapping(workload.get("spec")).get("template")).get("spec"))
        names = [str(mapping(item).get("name")) for item in pod.get("containers") or []]
        wanted = subject.written["scaleTargetRef"].get("envSourceContainerName")
        if wanted and wanted not in names:
            field = f"{_TARGET}.envSourceContainerName"
            yield found("container-missing", field, names=", ".join(names))
        yield from _grace_period(subject, pod)
    elif any(item.is_resource for item in spec.triggers):
        yield found("request-not-checked", _TARGET, target.name)
    for trigger in spec.triggers if around.authentications is not None else ():
        ref, field = trigger.authentication_ref, f"spec.triggers[{trigger.index}].authenticationRef"
        login = None if ref is None else (ref.kind, ref.name)
        if login in around.missing_authentications:
            yield found("login-missing", field, " ".join(login or ()), kind=login and login[0])
        elif login is not None and login not in (around.authentications or ()):
            yield found("login-not-in-file", field, " ".join(login))


def _grace_period(subject: Subject, pod: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a grace period in which a pod cannot finish; the preStop hook runs within it."""
    given, containers = pod.get("terminationGracePeriodSeconds"), pod.get("containers")
    hooks = [
        mapping(mapping(mapping(item).get("lifecycle")).get("preStop"))
        for item in (containers if isinstance(containers, list) else ())
    ]
    seconds = (mapping(hook.get("sleep")).get("seconds") for hook in hooks)
    # Hooks run side by side.
    sleeps = max((item for item in seconds if isinstance(item, int)), default=0)
    shutdown = subject.context.shutdown_seconds or 0.0
    grace, needed = _DEFAULT_GRACE_SECONDS if given is None else given, sleeps + shutdown
    if not needed or not isinstance(grace, int) or grace >= needed:
        return
    parts = [f"{sleeps:g} s of preStop"] if sleeps else []
    parts += [f"{shutdown:g} s of graceful shutdown"] if shutdown else []
    target = subject.spec.target
    yield subject.found(
        "grace-period-short",
        f"{target.kind} {target.name}: spec.template.spec.terminationGracePeriodSeconds",
        f"(absent: {grace})" if given is None else str(grace),
        parts=" and ".join(parts),
        needed=ceil(needed),
    )


def annotation_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what annotations hold back or force, and values that are not booleans."""
    given, is_handed = subject.annotations, is_handed_over(subject.manifest)

    def named(key: str, name: str, **facts: str) -> Finding:
        value = shown(str(given[name]))
        return subject.found(key, f"metadata.annotations.{name}", value, **facts)

    effects = {
        PAUSED: "the HPA is deleted and the replicas do not change",
        PAUSED_SCALE_IN: "never scales down",
        PAUSED_SCALE_OUT: "never scales up",
        FORCE_ACTIVATION: "never goes to 0 (or idle); the metric does not change",
    }
    for name, effect in effects.items():
        is_on = go_boolean(str(given.get(name)))
        if name in given and is_on is None:
            yield named("annotation-not-boolean", name, effect=effect)
        elif is_on and name == PAUSED and is_handed:
            yield named("handed-over", name, controller=CONTROLLER)
        elif is_on:
            yield named("scaling-held", name, effect=effect)
    if is_handed and not subject.spec.annotations.is_paused:
        yield named("two-controllers", SCALED_BY, paused=PAUSED)
    if PAUSED_REPLICAS in given:
        problem = subject.spec.annotations.paused_replicas_problem
        if problem:
            yield named("paused-replicas", PAUSED_REPLICAS, problem=problem)
        else:
            count = given[PAUSED_REPLICAS]
            effect = f"the HPA is deleted and the target set to {count} replicas"
            yield named("scaling-held", PAUSED_REPLICAS, effect=effect)
