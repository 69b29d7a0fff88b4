"""The replicas of a target that is compared with the whole metric (``metricType: Value``)."""

from __future__ import annotations

from lagbench.core.explain.lag_scaler import Step


def group_step(metric: float, target: float) -> Step:
    """Return the step from a metric to replicas: the ratio multiplies the Ready pods."""
    ratio = metric / target
    seen = f"{metric:g} / {target:g} for the group = {ratio:.2f}"
    rule = "ceil(ratio x Ready pods), before tolerance, stabilisation and rates of the HPA"
    return Step("replicas", seen, rule, f"{ratio:.2f} x the Ready pods")
