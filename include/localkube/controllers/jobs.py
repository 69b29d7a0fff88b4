"""Run the Job controller: start pods until enough have succeeded or too many have failed."""

from __future__ import annotations

from dataclasses import dataclass, field

from localkube.controllers.controller import Controller
from localkube.kinds import JOB, POD
from localkube.kube_objects import JsonObject, KubeObject, from_rfc3339, set_condition
from localkube.storage.deletion import Deletion
from localkube.storage.object_registry import Registry, random_suffix
from localkube.storage.object_store import Change

# Kubernetes waits 10 s after a failed pod, doubled per failure, at most 10 min.
_FIRST_RETRY_SECONDS = 10.0
_LONGEST_RETRY_SECONDS = 600.0
_Outcome = tuple[str, str, str]  # condition, reason, message


@dataclass(slots=True)
class _Tally:
    """The ended pods of one job, by uid, so that a deleted pod still counts."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    last_failure_at: float = 0.0


class JobController(Controller):
    """Reconciles Jobs."""

    resource = JOB

    def __init__(self, registry: Registry, deletion: Deletion) -> None:
        """Follow the registry's store."""
        self._tallies: dict[str, _Tally] = {}
        registry.store.subscribe(self._count)
        super().__init__(registry, deletion)

    def _count(self, change: Change) -> None:
        """Count a pod once when it ends: by its phase, or as failed when it is deleted."""
        uid = change.obj.uid
        if change.resource == JOB and change.kind == "DELETED":
            self._tallies.pop(uid, None)
        elif change.resource == JOB:
            self._tallies.setdefault(uid, _Tally())
        tally = self._tallies.get(change.obj.controller_uid or "")
        if change.resource != POD or tally is None or uid in tally.succeeded | tally.failed:
            return
        phase = change.obj.status.get("phase")
        if phase == "Succeeded":
            tally.succeeded.add(uid)
        elif phase == "Failed" or change.kind == "DELETED":
            tally.failed.add(uid)
            tally.last_failure_at = self._now()

    def _now(self) -> float:
        return self.registry.now_ns() / 1e9

    def reconcile(self, workload: KubeObject) -> None:
        """Start what is missing, or end what is too much; delete a job that has expired."""
        for entry in map(workload.condition, ("Complete", "Failed")):
            if entry.get("status") == "True":
                self._expire(workload, from_rfc3339(entry["lastTransitionTime"]))
                return
        spec, tally = workload.spec, self._tallies[workload.uid]
        active = self.active_pods(workload)
        outcome = None if spec.get("suspend") else self._outcome(workload, tally, active)
        if spec.get("suspend") or outcome is not None:
            for pod in active:
                self.deletion.delete(POD, pod)
        else:
            left = int(spec["completions"]) - len(tally.succeeded)
            missing = min(int(spec["parallelism"]), left) - len(active)
            if missing > 0 and self._may_retry(workload, tally):
                for _ in range(missing):
                    name = f"{workload.name}-{random_suffix()}"
                    self.create_pod(workload, spec["template"], name, None)
                    text = f"Created pod: {name}"
                    self.events.record(workload, "Normal", "SuccessfulCreate", text)
            active = self.active_pods(workload)
        self._write_counts(workload, tally, active, outcome)

    def _outcome(self, job: KubeObject, tally: _Tally, active: list[KubeObject]) -> _Outcome | None:
        """Return condition, reason and message if the job has ended."""
        spec = job.spec
        if len(tally.succeeded) >= int(spec["completions"]):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        # A restarted container counts like a failed pod.
        failures = len(tally.failed) + sum(
            status.get("restartCount", 0) for pod in active for status in pod.container_statuses
        )
        if failures > int(spec["backoffLimit"]):
            text = "Job has reached the specified backoff limit"
            return "Failed", "BackoffLimitExceeded", text
        if "activeDeadlineSeconds" in spec:
            started = job.status.get("startTime")
            since = from_rfc3339(started) if started else self._now()
            left = since + int(spec["activeDeadlineSeconds"]) - self._now()
            if left <= 0:
                text = "Job was active longer than specified deadline"
                return "Failed", "DeadlineExceeded", text
            self.look_again(job, left)
        return None

    def _may_retry(self, job: KubeObject, tally: _Tally) -> bool:
        failures = len(tally.failed)
        pause = min(_FIRST_RETRY_SECONDS * 2 ** (failures - 1), _LONGEST_RETRY_SECONDS)
        left = tally.last_failure_at + pause - self._now() if failures else 0.0
        if left > 0:
            self.look_again(job, left)
        return left <= 0

    def _write_counts(
        self, job: KubeObject, tally: _Tally, active: list[KubeObject], outcome: _Outcome | None
    ) -> None:
        now = self.registry.now()

        def edit(status: JsonObject) -> JsonObject:
            fresh: JsonObject = {
                "startTime": status.get("startTime", now),
                "active": 0 if outcome else len(active),
                "ready": 0 if outcome else sum(pod.is_ready for pod in active),
                "succeeded": len(tally.succeeded),
                "failed": len(tally.failed),
                "conditions": list(status.get("conditions") or ()),
            }
            if outcome is not None:
                kind, reason, message = outcome
                set_condition(fresh, kind, holds=True, at=now, reason=reason, message=message)
                if kind == "Complete":
                    fresh["completionTime"] = now
            return fresh

        self.write_status(job, edit)
        if outcome is not None and outcome[0] == "Complete":
            self.events.record(job, "Normal", "Completed", "Job completed")
        elif outcome is not None:
            self.events.record(job, "Warning", *outcome[1:])

    def _expire(self, job: KubeObject, finished_at: float) -> None:
        """Delete a finished job ``ttlSecondsAfterFinished`` after its end."""
        ttl = job.spec.get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        left = finished_at + ttl - self._now()
        if left <= 0:
            self.deletion.delete(JOB, job)
        else:
            self.look_again(job, left)
