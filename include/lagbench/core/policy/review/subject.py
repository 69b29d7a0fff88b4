"""A policy as the findings look at it: with what is known of its workload and of the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.hpa.controller_flags import version_of
from lagbench.core.hpa.hpa_metrics import propose_external_average
from lagbench.core.hpa.hpa_object import parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaSettings,
    MetricOutcome,
    decide,
    record_change,
    start_history,
)
from lagbench.core.keda.loop.keda_hpa import build_hpa, is_handed_over
from lagbench.core.keda.loop.scalers import MetricSpec
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.core.object_schema import value_at
from lagbench.core.policy.admission.webhook import ClusterView
from lagbench.core.policy.finding import Finding, shown
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.policy.review.finding_texts import found
from lagbench.core.scenario.scenario import ConsumerSettings


@dataclass(frozen=True, slots=True)
class PolicyContext:
    """The known facts of the workload; None: not known, and findings that need it are left out.

    ``pod_rate`` messages per second of one pod, ``base_rate`` those that arrive at rest,
    ``shutdown_seconds`` the time of a pod from SIGTERM until it has left the group,
    ``pause_seconds`` the longest time between two bursts, ``consumer`` the settings that say how
    much traffic lag shows at rest.
    """

    partitions: int | None = None
    pod_rate: float | None = None
    slo_seconds: float | None = None
    base_rate: float | None = None
    shutdown_seconds: float | None = None
    pause_seconds: float | None = None
    consumer: ConsumerSettings = field(default_factory=ConsumerSettings)


@dataclass(frozen=True, slots=True)
class KnownObjects:
    """The known objects beside the policy, in its file or in the cluster.

    ``environment``: of the target's container; None: not known. ``authentications``: (kind, name)
    of the known ones; None: not read. ``lacks_target``: the file holds workloads of this namespace,
    but not the target, and no cluster was asked. ``is_cluster_read``: else an object that is not
    among them may be there. ``missing_authentications``: (kind, name) of those
    that the cluster does not have. ``kubernetes``: the cluster's version; None: no cluster was
    asked, and the one that the policy names is followed.
    """

    cluster: ClusterView = field(default_factory=ClusterView)
    environment: Mapping[str, str] | None = None
    authentications: frozenset[tuple[str, str]] | None = None
    lacks_target: bool = False
    is_cluster_read: bool = False
    missing_authentications: frozenset[tuple[str, str]] = frozenset()
    kubernetes: str | None = None

    def version_for(self, manifest: Mapping[str, Any]) -> str:
        """Return the version of Kubernetes that is followed for a policy."""
        if self.kubernetes is None or is_handed_over(manifest):
            return version_of(manifest)
        return self.kubernetes


@dataclass(frozen=True)
class Subject:
    """A ScaledObject that was accepted and read, as the rules look at it."""

    policy: Policy
    spec: ScaledObjectSpec
    context: PolicyContext
    known_objects: KnownObjects

    @property
    def manifest(self) -> Mapping[str, Any]:
        """Return the object as it is written."""
        return self.policy.manifest

    @property
    def limits(self) -> PolicyLimits:
        """Return the limits of the policy."""
        return self.policy.limits

    def found(self, key: str, field: str, value: str = "", **facts: Any) -> Finding:
        """Return a finding; its value is what is written at the field, unless another is given."""
        written = value_at(self.manifest, field)
        if not value:
            is_written = written is not None and bool(str(written).strip())
            text = str(written).lower() if isinstance(written, bool) else written
            value = shown(text, field) if is_written else "(absent)"
        usual = {
            "floor": self.spec.floor,
            "ceiling": self.spec.max_replica_count,
            "interval": self.spec.polling_interval_seconds,
            "sync": self.limits.flags.sync_seconds_in_force,
        }
        return found(key, field, value, **{**usual, **facts})

    @property
    def written(self) -> Mapping[str, Any]:
        """Return the spec as it is written."""
        found: Mapping[str, Any] = self.manifest["spec"]
        return found

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Return the annotations as they are written."""
        return (self.manifest.get("metadata") or {}).get("annotations") or {}


# The longest window is an hour; what has not moved for that long will not.
_LONGEST_WINDOW_SECONDS = 3600

_TARGET_MILLI = 1000

ANY_NUMBER = 2**31 - 1
"""The proposal of a metric without a cap."""


def climb(subject: Subject, *, wish: int) -> tuple[int, ...]:
    """Return the counts from the floor up, while a metric permanently wants ``wish`` replicas.

    Pods are there at once, so this is the fastest way; syncs that change nothing are left out.
    """
    metric = MetricSpec("lag", "External", "AverageValue", _TARGET_MILLI)
    spec, flags = subject.spec, subject.limits.flags
    built = build_hpa(spec, {"uid": "", **(subject.manifest.get("metadata") or {})}, [metric])
    hpa = parse_hpa(built, where="climb")
    settings, replicas = HpaSettings(), max(spec.floor, 1)
    sync_seconds = round(flags.sync_seconds_in_force)
    most_still = _LONGEST_WINDOW_SECONDS // sync_seconds + 1
    # The floor has long been recommended when the lag comes: a scale-up window looks back on it.
    history = start_history(replicas, 0)
    counts, still, now_ns = [replicas], 0, 0
    while still < most_still and replicas < hpa.max_replicas:
        now_ns += sync_seconds * NS_PER_SECOND
        proposal = propose_external_average(
            [wish * _TARGET_MILLI],
            _TARGET_MILLI,
            status_replicas=replicas,
            tolerances=subject.limits.tolerances,
        )
        outcomes = [MetricOutcome("lag", proposal)]
        decision = decide(
            hpa, history, outcomes, spec_replicas=replicas, now_ns=now_ns, settings=settings
        )
        history = record_change(hpa, decision.history, replicas, decision.replicas, now_ns)
        still = 0 if decision.replicas != replicas else still + 1
        if decision.replicas != replicas:
            replicas = decision.replicas
            counts.append(replicas)
    return tuple(counts)
