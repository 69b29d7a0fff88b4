"""Run the Job controller: start pods until enough have succeeded or too many have failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from lagbench.core.kubernetes import is_ready
from lagbench.localkube.controllers.events import EventRecorder
from lagbench.localkube.controllers.reconciler import Reconciler
from lagbench.localkube.objects import (
    JsonObject,
    condition,
    controller_uid,
    copy_of,
    from_rfc3339,
    is_terminating,
    name_of,
    namespace_of,
    owner_reference,
    set_condition,
    uid_of,
)
from lagbench.localkube.storage.deletion import Deletion
from lagbench.localkube.storage.registry import Registry, random_suffix
from lagbench.localkube.storage.resources import JOB, POD
from lagbench.localkube.storage.store import Change

# Kubernetes waits 10 s after a failed pod, doubled per failure, at most 10 min.
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 600.0


@dataclass(slots=True)
class Tally:
    """The ended pods of one job, by uid, so that a deleted pod still counts."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    last_failure_at: float = 0.0


class JobController:
    """Reconciles Jobs."""

    def __init__(self, registry: Registry, deletion: Deletion, events: EventRecorder) -> None:
        """Follow the registry's store."""
        self._registry, self._deletion, self._events = registry, deletion, events
        self._tallies: dict[str, Tally] = {}
        registry.store.subscribe(self._count)
        self._reconciler = Reconciler(registry.store, JOB, self._reconcile)

    def close(self) -> None:
        """Stop reconciling; leave the pods as they are."""
        self._reconciler.close()

    def _count(self, change: Change) -> None:
        """Count a pod once when it ends: by its phase, or as failed when it is deleted."""
        if change.resource == JOB:
            if change.kind == "DELETED":
                self._tallies.pop(uid_of(change.obj), None)
            else:
                self._tallies.setdefault(uid_of(change.obj), Tally())
            return
        tally = self._tallies.get(controller_uid(change.obj) or "")
        if change.resource != POD or tally is None:
            return
        uid, phase = uid_of(change.obj), change.obj["status"].get("phase")
        if uid in tally.succeeded or uid in tally.failed:
            return
        if phase == "Succeeded":
            tally.succeeded.add(uid)
        elif phase == "Failed" or change.kind == "DELETED":
            tally.failed.add(uid)
            tally.last_failure_at = self._now()

    def _now(self) -> float:
        return self._registry.now_ns() / 1e9

    def _reconcile(self, job: JsonObject) -> None:
        if is_terminating(job):
            return
        if _is_finished(job):
            self._expire(job)
            return
        spec, tally = job["spec"], self._tallies[uid_of(job)]
        active = self._active_pods(job)
        if spec.get("suspend"):
            self._end_pods(active)
            self._write_status(job, tally, len(active), outcome=None)
            return
        outcome = self._outcome(job, tally, active)
        if outcome is not None:
            self._end_pods(active)
        else:
            missing = min(
                int(spec["parallelism"]), int(spec["completions"]) - len(tally.succeeded)
            ) - len(active)
            if missing > 0 and self._may_retry(job, tally):
                for _ in range(missing):
                    self._create_pod(job)
            active = self._active_pods(job)
        self._write_status(job, tally, len(active), outcome=outcome)

    def _outcome(
        self, job: JsonObject, tally: Tally, active: list[JsonObject]
    ) -> tuple[str, str, str] | None:
        """Return condition, reason and message if the job has ended."""
        spec = job["spec"]
        if len(tally.succeeded) >= int(spec["completions"]):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        # A restarted container counts like a failed pod.
        failures = len(tally.failed) + sum(
            status.get("restartCount", 0)
            for pod in active
            for status in pod["status"].get("containerStatuses") or ()
        )
        if failures > int(spec["backoffLimit"]):
            text = "Job has reached the specified backoff limit"
            return "Failed", "BackoffLimitExceeded", text
        if "activeDeadlineSeconds" in spec:
            started = job.get("status", {}).get("startTime")
            since = from_rfc3339(started) if started else self._now()
            left = since + int(spec["activeDeadlineSeconds"]) - self._now()
            if left <= 0:
                text = "Job was active longer than specified deadline"
                return "Failed", "DeadlineExceeded", text
            self._reconciler.look_again(job, left)
        return None

    def _may_retry(self, job: JsonObject, tally: Tally) -> bool:
        failures = len(tally.failed)
        if failures == 0:
            return True
        pause = min(_FIRST_RETRY_SECONDS * 2 ** (failures - 1), _LONGEST_RETRY_SECONDS)
        left = tally.last_failure_at + pause - self._now()
        if left > 0:
            self._reconciler.look_again(job, left)
        return bool(left <= 0)

    def _create_pod(self, job: JsonObject) -> None:
        template = copy_of(job["spec"]["template"])
        pod = {
            "metadata": {
                **template.get("metadata", {}),
                "name": f"{name_of(job)}-{random_suffix()}",
                "ownerReferences": [owner_reference(job)],
            },
            "spec": template["spec"],
        }
        created = self._registry.create(POD, pod, namespace_of(job))
        self._events.normal(job, "SuccessfulCreate", f"Created pod: {name_of(created)}")

    def _active_pods(self, job: JsonObject) -> list[JsonObject]:
        return [
            pod
            for pod in self._registry.store.select(POD, namespace_of(job))
            if controller_uid(pod) == uid_of(job)
            and not is_terminating(pod)
            and pod["status"].get("phase") not in ("Succeeded", "Failed")
        ]

    def _end_pods(self, pods: list[JsonObject]) -> None:
        for pod in pods:
            self._deletion.delete(POD, pod)

    def _write_status(
        self,
        job: JsonObject,
        tally: Tally,
        active: int,
        *,
        outcome: tuple[str, str, str] | None,
    ) -> None:
        ready = sum(is_ready(pod) for pod in self._active_pods(job))
        now = self._registry.now()

        def edit(obj: JsonObject) -> None:
            status = obj.get("status") or {}
            fresh: JsonObject = {
                "startTime": status.get("startTime", now),
                "active": 0 if outcome else active,
                "ready": 0 if outcome else ready,
                "succeeded": len(tally.succeeded),
                "failed": len(tally.failed),
                "conditions": [dict(entry) for entry in status.get("conditions") or ()],
            }
            if outcome is not None:
                kind, reason, message = outcome
                set_condition(fresh, kind, holds=True, at=now, reason=reason, message=message)
                if kind == "Complete":
                    fresh["completionTime"] = now
            obj["status"] = fresh

        self._registry.change(JOB, namespace_of(job), name_of(job), edit)
        if outcome is not None:
            kind, reason, message = outcome
            if kind == "Complete":
                self._events.normal(job, "Completed", "Job completed")
            else:
                self._events.warning(job, reason, message)

    def _expire(self, job: JsonObject) -> None:
        """Delete a finished job ``ttlSecondsAfterFinished`` after its end."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        ended = condition(job, "Complete") or condition(job, "Failed") or {}
        left = from_rfc3339(ended["lastTransitionTime"]) + ttl - self._now()
        if left <= 0:
            self._deletion.delete(JOB, job)
        else:
            self._reconciler.look_again(job, left)


def _is_finished(job: JsonObject) -> bool:
    return any(
        (condition(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed")
    )
