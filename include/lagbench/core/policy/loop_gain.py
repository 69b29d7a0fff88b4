"""The gain of a lag trigger's control loop, and the lag at which it comes to rest.

Lag is an integral, and the replicas are proportional to it. Real runs compare a gain of 7.5 and 1
(docs/findings/gain_rule). Other gains, and pods that start slowly, are simulated alone
(docs/findings/gain-rule-simulated.md).
"""

from __future__ import annotations

import math

from lagbench.core.policy.limits import PolicyLimits


def loop_gain(pod_rate: float, limits: PolicyLimits) -> float | None:
    """Return HPA sync x rate of one pod / lagThreshold; None: the policy reads no lag.

    It is the lag, in thresholds, that one pod works off between two syncs.

    :param pod_rate: messages per second; infinite if a message costs nothing.
    """
    standing = standing_lag_seconds(pod_rate, limits)
    return None if standing is None else limits.flags.sync_seconds_in_force / standing


def standing_lag_seconds(pod_rate: float, limits: PolicyLimits) -> float | None:
    """Return lagThreshold / rate of one pod; None: the policy reads no lag.

    At rest n pods do the offered rate, and the lag is n x lagThreshold.
    """
    threshold = limits.scales_at_records
    if not threshold or not pod_rate or math.isinf(pod_rate):
        return None
    return threshold / pod_rate
