"""Estimate the cores that a cell needs at its peak load on the embedded bench.

A rule of thumb from the processor times of one quick_spike run on two cores. Processor time of one
message falls with the rate, because batches grow: producing costs little, the broker and a consumer
pay per request more than per message. That what a pod and the broker cost grows with the square
root of their rate is an assumption. Pods that are behind fetch full batches and cost less, whatever
their number: measured in lab_full_spike, at 50,000/s with 4 to 24 pods of 2,000/s.

The work of ``consumer.cpu_ms`` comes on top. It is all that is known of a user's own consumer: what
its code costs is not counted.
"""

from __future__ import annotations

import math

from lagbench.core.simulation.plan import Plan

# quick_spike: 12 pods at 500/s took 0.037 cores each, 0.009 of them at rest.
_POD_AT_REST = 0.009
_POD_AT_500 = 0.028

# quick_spike: broker 0.20 cores at rest and 0.38 at 6,000/s.
_BROKER_AT_REST = 0.20
_BROKER_AT_6000 = 0.18

# lab_full_spike, in cores of the reference machine: 0.03 to 0.04 a pod and 0.28 to 0.31 for the
# broker while lag builds up, 0.02 and 0.30 while 24 pods drain it.
_POD_BEHIND = 0.04
_BROKER_BEHIND = 0.31

# Flat out the producer sends 200,000/s and more on one core.
_PRODUCER_PER_MESSAGE = 1 / 200_000

# localkube 0.015, recorder 0.01, autoscaler, and the Airflow that waits for the run.
_OTHERS = 0.1
_RECORDER = 0.01


def cores_needed(plan: Plan, second: Plan | None = None) -> float:
    """Return the cores that the bench and its pods keep busy at the peak of the load.

    :param second: the needs of the run's second group, which reads the same messages.
    """
    broker = _broker_cores(plan)
    consumers = _consumer_cores(plan)
    if second is not None:
        consumers += _consumer_cores(second) + _RECORDER
        broker += _BROKER_AT_6000 * math.sqrt(plan.peak_rate / 6000)
    return consumers + broker + plan.peak_rate * _PRODUCER_PER_MESSAGE + _OTHERS


def _consumer_cores(plan: Plan) -> float:
    pods = min(plan.useful_replicas, plan.pods_needed_at_peak)
    done = min(plan.peak_rate, plan.capacity_per_second)
    if plan.spark_cores is not None:
        return plan.spark_cores + done * plan.cpu_ms / 1000
    if plan.is_own:
        return done * plan.cpu_ms / 1000
    pod = _POD_AT_REST + _POD_AT_500 * math.sqrt(done / pods / 500)
    if _is_behind(plan):
        pod = min(pod, _POD_BEHIND)
    return pods * pod + done * plan.cpu_ms / 1000


def _broker_cores(plan: Plan) -> float:
    following = _BROKER_AT_REST + _BROKER_AT_6000 * math.sqrt(plan.peak_rate / 6000)
    return min(following, _BROKER_BEHIND) if _is_behind(plan) else following


def _is_behind(plan: Plan) -> bool:
    """Say whether lag builds up at the peak, so that each fetch finds full batches."""
    return plan.peak_rate > plan.capacity_per_second


def cannot_carry(plan: Plan, cores: int, speed: float = 1.0, *, second: Plan | None = None) -> str:
    """Say what a machine lacks for the cell; empty: nothing.

    :param speed: of a core, where 1.0 is the machine on which the needs were measured.
    :param second: the needs of the run's second group.
    """
    needed = cores_needed(plan, second) / speed
    if needed <= cores:
        return ""
    own = " beside what your own code takes" if plan.is_own and not plan.cpu_ms else ""
    peak = f"at the peak of {plan.peak_rate:,.0f}/s{own}"
    return (
        f"needs about {needed:.1f} cores of this speed {peak}, here are {cores}: "
        "expect an invalid run (a late generator) or a dip that the bench causes"
    )
