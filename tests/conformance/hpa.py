"""Compare ``lagbench.core.hpa.hpa_sync`` with recorded syncs of Kubernetes' own HPA code.

``python -m tests.conformance.hpa FILE`` (.json or .json.gz) prints ``N of N agree``; exit code 1
on a difference. Each tick of a scenario is one sync: its inputs are given, its outcomes compared.
"""

from __future__ import annotations

import sys
from typing import Any

from lagbench.core.hpa.controller_flags import Tolerances
from lagbench.core.hpa.hpa_metrics import Proposal, propose_external_average, propose_external_value
from lagbench.core.hpa.hpa_object import HpaSpec, parse_hpa
from lagbench.core.hpa.hpa_sync import (
    HpaDecision,
    HpaHistory,
    HpaSettings,
    MetricOutcome,
    decide,
    record_change,
    start_history,
    wants_metrics,
)
from tests.conformance.comparison import Comparison, run_command

NS_PER_MS = 1_000_000
COMPARED = ("metricDesired", "newReplicas", "ableToScale", "scalingLimited", "usageMilli")


def compare(oracle: dict[str, Any]) -> Comparison:
    """Return the comparison over every tick of every scenario."""
    comparison = Comparison()
    for number, scenario in enumerate(oracle["scenarios"]):
        spec = _spec(scenario)
        settings = HpaSettings(
            tolerance=scenario["tolerance"],
            downscale_stabilization_seconds=scenario["downscaleStabilizationSeconds"],
        )
        history: HpaHistory | None = None
        for tick in scenario["ticks"]:
            now_ns = tick["t"] * NS_PER_MS
            history = history or start_history(tick["specReplicas"], now_ns)
            proposal = _proposal(scenario, spec, tick, settings)
            outcomes = [MetricOutcome("external metric", proposal)] if proposal else []
            decision = decide(
                spec,
                history,
                outcomes,
                spec_replicas=tick["specReplicas"],
                now_ns=now_ns,
                settings=settings,
            )
            history = record_change(
                spec, decision.history, tick["specReplicas"], decision.replicas, now_ns
            )
            wanted = {key: tick[key] for key in COMPARED if _is_comparable(key, tick)}
            place = f"scenario {number} at {tick['t']} ms"
            comparison.expect(place, wanted, _computed(decision, proposal))
    return comparison


def _is_comparable(key: str, tick: dict[str, Any]) -> bool:
    """Usage per pod is not defined without a pod; everything else always is."""
    return key in tick and not (key == "usageMilli" and tick["statusReplicas"] == 0)


def _spec(scenario: dict[str, Any]) -> HpaSpec:
    hpa = scenario["hpa"]
    target_type = scenario["targetType"]
    key = "averageValue" if target_type == "AverageValue" else "value"
    target = {"type": target_type, key: f"{scenario['targetMilli']}m"}
    metric = {"type": "External", "external": {"metric": {"name": "m"}, "target": target}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"},
        "maxReplicas": hpa["maxReplicas"],
        "metrics": [metric],
        "behavior": hpa.get("behavior"),
    }
    if hpa.get("minReplicas") is not None:
        spec["minReplicas"] = hpa["minReplicas"]
    return parse_hpa({"spec": spec}, where="oracle")


def _proposal(
    scenario: dict[str, Any], spec: HpaSpec, tick: dict[str, Any], settings: HpaSettings
) -> Proposal | None:
    if not wants_metrics(spec, tick["specReplicas"]):
        return None
    tolerances = Tolerances(settings.tolerance, settings.tolerance)
    values, target = [tick["metricMilli"]], scenario["targetMilli"]
    if scenario["targetType"] == "AverageValue":
        return propose_external_average(
            values, target, status_replicas=tick["statusReplicas"], tolerances=tolerances
        )
    return propose_external_value(
        values,
        target,
        spec_replicas=tick["specReplicas"],
        ready_pods=tick["readyPods"],
        tolerances=tolerances,
    )


def _computed(decision: HpaDecision, proposal: Proposal | None) -> dict[str, Any]:
    texts = {
        condition.type: f"{condition.status.lower()}:{condition.reason}"
        for condition in decision.conditions
    }
    return {
        "metricDesired": decision.proposal,
        "newReplicas": decision.replicas,
        "ableToScale": texts.get("AbleToScale", ""),
        "scalingLimited": texts.get("ScalingLimited", ""),
        "usageMilli": None if proposal is None else proposal.usage_milli,
    }


if __name__ == "__main__":
    sys.exit(run_command("hpa", compare))
