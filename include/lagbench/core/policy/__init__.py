"""A scaling policy before it is applied: what it is, its limits."""

from lagbench.core.policy.kinds import POLICY_VERSIONS
from lagbench.core.policy.limits import (
    KEDA_DEFAULT_LAG_THRESHOLD,
    LAG_SCALER_DEFAULT_THRESHOLD,
    PolicyLimits,
    is_lag_scaler,
    policy_limits,
)
from lagbench.core.policy.load import check_limits, check_policy

__all__ = [
    "KEDA_DEFAULT_LAG_THRESHOLD",
    "LAG_SCALER_DEFAULT_THRESHOLD",
    "POLICY_VERSIONS",
    "PolicyLimits",
    "check_limits",
    "check_policy",
    "is_lag_scaler",
    "policy_limits",
]
