"""Pods over time: timelines, cost, CPU, start."""

from lagbench.core.measures.pods.consumer_cpu import consumer_cpu
from lagbench.core.measures.pods.paid_for_itself import PaidForItself, paid_for_itself
from lagbench.core.measures.pods.pod_time import (
    SurplusPod,
    idle_ratio,
    surplus,
    zero_partition_seconds,
)
from lagbench.core.measures.pods.start_cost import StartCost, start_cost

__all__ = [
    "PaidForItself",
    "StartCost",
    "SurplusPod",
    "consumer_cpu",
    "idle_ratio",
    "paid_for_itself",
    "start_cost",
    "surplus",
    "zero_partition_seconds",
]
