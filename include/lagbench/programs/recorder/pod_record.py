"""Read a pod's timeline from its Kubernetes object."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from lagbench.core.kubernetes.readiness import ready_since
from lagbench.core.measures.evidence.pod_timeline import FINAL_PHASES
from lagbench.core.telemetry.recorder import PodSeen

# localkube writes exact instants here; a cluster has whole seconds (metav1.Time) only.
_EXACT = "lagbench.io/{}-at-ns"
_EXACT_PRECISION_NS = 1
_WHOLE_SECONDS_PRECISION_NS = 1_000_000_000

_NOT_STARTED = "ContainerStatusUnknown"


def pod_seen(pod: Mapping[str, Any], *, at: int, source: str, gone_at: int | None) -> PodSeen:
    """Return what ``pod`` (a v1 Pod as JSON) says; ``gone_at`` is when the object went away."""
    metadata, status = pod["metadata"], pod.get("status") or {}
    notes = metadata.get("annotations") or {}
    container: Mapping[str, Any] = next(iter(status.get("containerStatuses") or []), {})
    states = {**(container.get("lastState") or {}), **(container.get("state") or {})}
    terminated = states.get("terminated") or {}
    begun = states.get("running") or terminated
    is_exact = _EXACT.format("created") in notes
    created_at = _instant(notes, "created", metadata.get("creationTimestamp"))
    return PodSeen(
        at=at,
        source=source,
        pod=metadata["name"],
        created_at=at if created_at is None else created_at,
        started_at=_instant(notes, "started", begun.get("startedAt")),
        ready_at=_instant(notes, "ready", ready_since(pod)),
        deleted_at=_instant(notes, "deleted", _deletion_asked(metadata)),
        gone_at=gone_at,
        exit_code=terminated.get("exitCode"),
        exit_reason=str(terminated.get("reason") or status.get("reason") or ""),
        precision_ns=_EXACT_PRECISION_NS if is_exact else _WHOLE_SECONDS_PRECISION_NS,
        phase=str(status.get("phase") or ""),
        # Beside exact instants a whole second says less than when the watch showed it.
        finished_at=None if is_exact else _instant(notes, "finished", _finished(status)),
        node=str((pod.get("spec") or {}).get("nodeName") or ""),
        address=str(status.get("podIP") or ""),
        containers_ended=_containers_ended(container),
    )


def _containers_ended(container: Mapping[str, Any]) -> int | None:
    """Return how often the container has ended; None: its restarts are not reported."""
    restarts, state = container.get("restartCount"), container.get("state") or {}
    if restarts is None:
        return None
    ended = state.get("terminated")
    # A container that was removed before it was started again has not ended once more.
    is_new = state != container.get("lastState") and (ended or {}).get("reason") != _NOT_STARTED
    return int(restarts) + (ended is not None and is_new)


def _finished(status: Mapping[str, Any]) -> str | None:
    """Return when the last container ended; None while the pod may start one again."""
    if status.get("phase") not in FINAL_PHASES:
        return None
    states = [container.get("state") or {} for container in status.get("containerStatuses") or []]
    ends = [str((state.get("terminated") or {}).get("finishedAt") or "") for state in states]
    return max(ends) if ends and all(ends) else None


def _deletion_asked(metadata: Mapping[str, Any]) -> str | None:
    """Return when deletion was requested: deletionTimestamp lies a grace period after it."""
    text = metadata.get("deletionTimestamp")
    if not text:
        return None
    grace_seconds = int(metadata.get("deletionGracePeriodSeconds") or 0)
    asked = datetime.fromisoformat(text).timestamp() - grace_seconds
    return datetime.fromtimestamp(asked, UTC).isoformat()


def _instant(notes: Mapping[str, str], what: str, timestamp: str | None) -> int | None:
    exact = notes.get(_EXACT.format(what))
    if exact:
        return int(exact)
    if not timestamp:
        return None
    return round(datetime.fromisoformat(timestamp).timestamp()) * 1_000_000_000
