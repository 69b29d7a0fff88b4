"""A metric's value worked out step by step."""

from lagbench.core.explain.kafka import explain_kafka
from lagbench.core.explain.lag_scaler import Step, explain

__all__ = [
    "Step",
    "explain",
    "explain_kafka",
]
