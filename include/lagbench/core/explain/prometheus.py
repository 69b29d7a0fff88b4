"""Explain one reading of KEDA's prometheus trigger step by step, from the answer to replicas."""

from __future__ import annotations

from lagbench.core.explain.group_target import group_step
from lagbench.core.explain.lag_scaler import Step
from lagbench.core.keda.loop import MetricReading
from lagbench.core.keda.object import Trigger
from lagbench.core.keda.triggers import PrometheusTrigger
from lagbench.core.kubernetes import metric_milli


def explain_prometheus(
    trigger: Trigger,
    parameters: PrometheusTrigger,
    reading: MetricReading,
    *,
    min_replicas: int,
    max_replicas: int,
) -> tuple[Step, ...]:
    """Return what KEDA 2.21 serves, and what the HPA first makes of it."""
    (value,) = reading.values
    served = metric_milli(value) / 1000
    nulls = "0" if parameters.ignore_null_values else "a failed poll"
    steps = (
        Step("query", parameters.query, f"one series; an empty answer is {nulls}", f"{value:g}"),
        Step("metric", f"{value:g}", "three decimals, nothing below zero", f"metric {served:g}"),
        Step(
            "activity",
            f"{value:g}",
            f"above activationThreshold {parameters.activation_threshold:g} (0 <-> 1 replicas)",
            "active" if reading.is_active else "not active",
        ),
    )
    return (*steps, _replicas(trigger, parameters, served, min_replicas, max_replicas))


def _replicas(
    trigger: Trigger,
    parameters: PrometheusTrigger,
    served: float,
    min_replicas: int,
    max_replicas: int,
) -> Step:
    ratio = served / (parameters.target_milli / 1000)
    if trigger.metric_type == "Value":
        return group_step(served, parameters.target_milli / 1000)
    seen = f"{served:g} / {parameters.threshold:g} per replica = {ratio:.2f}"
    floor = max(min_replicas, 1)
    wanted = -(-metric_milli(served) // parameters.target_milli)
    return Step(
        "replicas",
        seen,
        f"ceil(metric / target), then {floor} to {max_replicas}; before tolerance, stabilisation "
        "and rates of the HPA",
        f"{min(max(wanted, floor), max_replicas)} wanted",
    )
