"""The pods behind a Resource metric, sorted into those that count, as Kubernetes sorts them.

A CPU sample counts only from a pod past its start: within the CPU initialization period the pod
must be Ready for at least one metric window; later, a pod that was never Ready does not count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.kubernetes.instants import NS_PER_SECOND, parse_instant_ns
from lagbench.core.kubernetes.quantity import parse_milli

CPU_INITIALIZATION_SECONDS = 300
INITIAL_READINESS_DELAY_SECONDS = 30


@dataclass(frozen=True, slots=True)
class PodState:
    """The fields of a pod that the HPA uses; None where its status has no value."""

    name: str
    phase: str
    is_deleting: bool
    started_at_ns: int | None
    is_ready: bool | None
    ready_changed_at_ns: int
    request_milli: int | None  # None: something requests none of the resource
    requests_nothing: str = ""  # what that is, as the HPA names it in its message


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A pod's measured usage, averaged over the window that ended at ``at_ns``."""

    milli: int
    at_ns: int
    window_ns: int


@dataclass(frozen=True, slots=True)
class PodGroups:
    """Names of pods by how the replica calculation treats them."""

    ready_count: int = 0
    unready: frozenset[str] = field(default_factory=frozenset)
    missing: frozenset[str] = field(default_factory=frozenset)
    ignored: frozenset[str] = field(default_factory=frozenset)


def parse_pod(pod: Mapping[str, Any], resource: str, container: str = "") -> PodState:
    """Return the state of a Pod object; with ``container`` only its request counts."""
    request_milli, requests_nothing = _request_milli(pod, resource, container)
    metadata, status = pod["metadata"], pod.get("status") or {}
    ready = next((c for c in status.get("conditions") or [] if c.get("type") == "Ready"), None)
    changed = (ready or {}).get("lastTransitionTime")
    started = status.get("startTime")
    return PodState(
        name=metadata["name"],
        phase=status.get("phase", ""),
        is_deleting=bool(metadata.get("deletionTimestamp")),
        started_at_ns=parse_instant_ns(started) if started else None,
        is_ready=None if ready is None else ready.get("status") == "True",
        ready_changed_at_ns=parse_instant_ns(changed) if changed else 0,
        request_milli=request_milli,
        requests_nothing=requests_nothing,
    )


def _request_milli(pod: Mapping[str, Any], resource: str, container: str) -> tuple[int | None, str]:
    """Return what the pod requests, or what of it requests nothing.

    A request of the whole pod comes first, unless one container is asked about.
    """
    spec, where = pod.get("spec") or {}, pod["metadata"]["name"]
    of_pod = (spec.get("resources") or {}).get("requests") or {}
    if resource in of_pod and not container:
        return parse_milli(of_pod[resource], where=where, field=resource), ""
    total = 0
    for item in _running_together(spec):
        if container and item.get("name") != container:
            continue
        request = ((item.get("resources") or {}).get("requests") or {}).get(resource)
        if request is None:
            return None, f"container {item.get('name', '')} of Pod {where}"
        total += parse_milli(request, where=where, field=resource)
    return total, ""


def _running_together(spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the containers that run at one time: the ordinary ones and the sidecars."""
    sidecars = [
        item for item in spec.get("initContainers") or [] if item.get("restartPolicy") == "Always"
    ]
    return [*(spec.get("containers") or []), *sidecars]


def parse_pod_metrics(
    item: Mapping[str, Any], resource: str, container: str = ""
) -> tuple[str, PodUsage] | None:
    """Return a PodMetrics object as (pod, usage); None when a container lacks the resource.

    With ``container`` only its usage counts; a sample without it says nothing of the pod.
    """
    name = item["metadata"]["name"]
    measured = item.get("containers") or []
    if container:
        measured = [one for one in measured if one.get("name") == container]
    if not measured:
        return None
    total = 0
    for one in measured:
        usage = (one.get("usage") or {}).get(resource)
        if usage is None:
            return None
        total += parse_milli(usage, where=name, field=resource)
    window = _duration_ns(str(item.get("window") or "0s"))
    return name, PodUsage(total, parse_instant_ns(item["timestamp"]), window)


def _duration_ns(text: str) -> int:
    """Return a Go duration made of minutes and seconds (``30s``, ``1m0s``, ``15.1s``)."""
    minutes, _, seconds = text.rpartition("m")
    whole_seconds = float(seconds.rstrip("s") or 0) + 60 * float(minutes or 0)
    return int(whole_seconds * NS_PER_SECOND)


def group_pods(
    pods: Sequence[PodState], usage: Mapping[str, PodUsage], resource: str, now_ns: int
) -> PodGroups:
    """Return which pods count, lack a sample, are not ready yet, or are on their way out."""
    unready, missing, ignored = set(), set(), set()
    ready_count = 0
    for pod in pods:
        if pod.is_deleting or pod.phase == "Failed":
            ignored.add(pod.name)
        elif pod.phase == "Pending":
            unready.add(pod.name)
        elif pod.name not in usage:
            missing.add(pod.name)
        elif resource == "cpu" and _is_sample_too_early(pod, usage[pod.name], now_ns):
            unready.add(pod.name)
        else:
            ready_count += 1
    return PodGroups(ready_count, frozenset(unready), frozenset(missing), frozenset(ignored))


def _is_sample_too_early(pod: PodState, usage: PodUsage, now_ns: int) -> bool:
    if pod.is_ready is None or pod.started_at_ns is None:
        return True
    if pod.started_at_ns + CPU_INITIALIZATION_SECONDS * NS_PER_SECOND > now_ns:
        is_window_short = usage.at_ns < pod.ready_changed_at_ns + usage.window_ns
        return not pod.is_ready or is_window_short
    delay_ns = INITIAL_READINESS_DELAY_SECONDS * NS_PER_SECOND
    return not pod.is_ready and pod.started_at_ns + delay_ns > pod.ready_changed_at_ns
