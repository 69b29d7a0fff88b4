"""The way up of a policy while lag wants all it can get: its HPA, sync after sync."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.hpa.controller_flags import controller_flags
from lagbench.core.hpa.metrics import propose_external_average
from lagbench.core.hpa.spec import parse_hpa
from lagbench.core.hpa.state import HpaSettings
from lagbench.core.hpa.sync import MetricOutcome, decide, record_change, start_history
from lagbench.core.keda.loop.hpa_builder import build_hpa
from lagbench.core.keda.loop.scaler import MetricSpec
from lagbench.core.keda.object.spec import ScaledObjectSpec
from lagbench.core.kubernetes.instants import NS_PER_SECOND

# The longest window is an hour; what has not moved for that long will not.
_LONGEST_WINDOW_SECONDS = 3600
_TARGET_MILLI = 1000
ANY_NUMBER = 2**31 - 1
"""The proposal of a metric without a cap."""


def climb(manifest: Mapping[str, Any], spec: ScaledObjectSpec, *, wish: int) -> tuple[int, ...]:
    """Return the counts from the floor up, while a metric permanently wants ``wish`` replicas.

    Pods are there at once, so this is the fastest way; syncs that change nothing are left out.
    """
    metric = MetricSpec("lag", "External", "AverageValue", _TARGET_MILLI)
    built = build_hpa(spec, {"uid": "", **(manifest.get("metadata") or {})}, [metric])
    hpa = parse_hpa(built, where="climb")
    flags = controller_flags(manifest, where="climb")
    settings, replicas = HpaSettings(tolerance=flags.tolerance_in_force), max(spec.floor, 1)
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
            tolerance=settings.tolerance,
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
