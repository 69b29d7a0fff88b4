"""The workload that is scaled and the logins that are named: what KEDA looks up later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from lagbench.core.policy.admission import Manifest
from lagbench.core.policy.review.cluster_facts import mapping
from lagbench.core.policy.review.finding import Finding, Subject

_DEFAULT_GRACE_SECONDS = 30  # of Kubernetes
_TARGET = "spec.scaleTargetRef"
_WITHOUT_SCALE = frozenset(
    {
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ControllerRevision"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("v1", "Pod"),
        ("v1", "Service"),
    }
)


def target_findings(subject: Subject) -> Iterator[Finding]:
    """Yield what of the target and of the logins is not there, as far as that is known."""
    spec, cluster = subject.spec, subject.known_objects.cluster
    target = spec.target
    if (target.api_version, target.kind) in _WITHOUT_SCALE:
        yield Finding(
            "broken",
            "target-not-scalable",
            f"{_TARGET}.kind",
            target.kind,
            "stored, but never ready: this kind has no scale subresource",
            "a Deployment or a StatefulSet; for Jobs KEDA has ScaledJob",
        )
    if subject.known_objects.lacks_target:
        yield Finding(
            "warning",
            "target-missing",
            f"{_TARGET}.name",
            target.name,
            f"the file contains other workloads, but no {target.kind} of this name: without it "
            "KEDA "
            "is never ready",
            "the name of the workload",
        )
    workload = cluster.workload(target.kind, target.name)
    if target.api_version == "apps/v1" and cluster.lacks_workload(target.kind, target.name):
        yield Finding(
            "broken",
            "target-missing",
            f"{_TARGET}.name",
            target.name,
            f"stored, but never ready: the cluster has no {target.kind} of this name",
            "apply the workload first",
        )
    wanted = subject.written["scaleTargetRef"].get("envSourceContainerName")
    if workload is not None and wanted:
        pod = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
        names = [str(item.get("name")) for item in pod.get("containers") or []]
        if wanted not in names:
            yield Finding(
                "broken",
                "container-missing",
                f"{_TARGET}.envSourceContainerName",
                wanted,
                "stored, but never ready: the target has no such container",
                f"one of {', '.join(names)}",
            )
    if workload is not None:
        yield from _grace_period(subject, workload)
    if workload is None and any(item.is_resource for item in spec.triggers):
        yield Finding(
            "note",
            "request-not-checked",
            _TARGET,
            target.name,
            "the webhook rejects a cpu or memory trigger if a container of the target has no "
            "request for it; the target is not in this file",
        )
    yield from _logins(subject)


def _grace_period(subject: Subject, workload: Manifest) -> Iterator[Finding]:
    """Yield a grace period in which a pod cannot finish; the preStop hook runs within it."""
    pod = mapping(mapping(mapping(workload.get("spec")).get("template")).get("spec"))
    given = pod.get("terminationGracePeriodSeconds")
    grace = _DEFAULT_GRACE_SECONDS if given is None else given
    sleeps = _longest_pre_stop(pod)
    shutdown = subject.context.shutdown_seconds or 0.0
    needed = sleeps + shutdown
    if not needed or not isinstance(grace, int) or grace >= needed:
        return
    parts = [f"{sleeps:g} s of preStop"] if sleeps else []
    parts += [f"{shutdown:g} s of graceful shutdown"] if shutdown else []
    yield Finding(
        "warning",
        "grace-period-short",
        f"{subject.spec.target.kind} {subject.spec.target.name}: "
        "spec.template.spec.terminationGracePeriodSeconds",
        f"(absent: {grace})" if given is None else str(grace),
        f"a pod needs {' and '.join(parts)}: each scale-down kills pods that still work, their "
        "messages in flight are processed again, and the group waits for session.timeout.ms",
        f"{ceil(needed)} or more",
    )


def _longest_pre_stop(pod: Mapping[str, Any]) -> float:
    """Return the longest sleep (s) of a container's preStop hook; hooks run side by side."""
    containers = pod.get("containers")
    hooks = [
        mapping(mapping(mapping(item).get("lifecycle")).get("preStop"))
        for item in (containers if isinstance(containers, list) else ())
    ]
    seconds = (mapping(hook.get("sleep")).get("seconds") for hook in hooks)
    return max((item for item in seconds if isinstance(item, int)), default=0)


def _logins(subject: Subject) -> Iterator[Finding]:
    known = subject.known_objects.authentications
    if known is None:
        return
    for trigger in subject.spec.triggers:
        reference = trigger.authentication_ref
        if reference is None:
            continue
        if (reference.kind, reference.name) in subject.known_objects.missing_authentications:
            yield Finding(
                "broken",
                "login-missing",
                f"spec.triggers[{trigger.index}].authenticationRef",
                f"{reference.kind} {reference.name}",
                "stored, but never ready: neither the file nor the cluster has it",
                f"apply the {reference.kind} first",
            )
        elif (reference.kind, reference.name) not in known:
            yield Finding(
                "note",
                "login-not-in-file",
                f"spec.triggers[{trigger.index}].authenticationRef",
                f"{reference.kind} {reference.name}",
                "is looked up only when KEDA builds the trigger: without it, the policy is "
                "stored and never ready",
            )
