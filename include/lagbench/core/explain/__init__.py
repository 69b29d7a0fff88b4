"""A metric's value worked out step by step."""

from lagbench.core.explain.lag_scaler import Step, explain
from lagbench.core.explain.trigger_steps import explain_kafka, explain_prometheus

__all__ = [
    "Step",
    "explain",
    "explain_kafka",
    "explain_prometheus",
]
