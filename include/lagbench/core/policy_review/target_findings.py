"""The workload that is scaled and the logins that are named: what KEDA looks up later."""

from __future__ import annotations

from collections.abc import Iterator

from lagbench.core.policy_review.finding import Finding, Subject

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
    spec, cluster = subject.spec, subject.surroundings.cluster
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
    if subject.surroundings.lacks_target:
        yield Finding(
            "warning",
            "target-missing",
            f"{_TARGET}.name",
            target.name,
            f"the file holds other workloads, but no {target.kind} of this name: without it KEDA "
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
    if workload is None and any(item.is_resource for item in spec.triggers):
        yield Finding(
            "note",
            "request-not-checked",
            _TARGET,
            target.name,
            "the webhook refuses a cpu or memory trigger when a container of the target requests "
            "none of it; the target is not in this file",
        )
    yield from _logins(subject)


def _logins(subject: Subject) -> Iterator[Finding]:
    known = subject.surroundings.authentications
    if known is None:
        return
    for trigger in subject.spec.triggers:
        reference = trigger.authentication_ref
        if reference is None:
            continue
        if (reference.kind, reference.name) in subject.surroundings.missing_authentications:
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
                "is looked up only when KEDA builds the trigger: missing, the policy is stored and "
                "never ready",
            )
