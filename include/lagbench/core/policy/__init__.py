"""A scaling policy before it is applied: what it is, its limits."""

from lagbench.core.policy.checked_policy import (
    CheckedPolicy,
    admitted_policy,
    check_fit,
    check_policy,
    refuse_broken_triggers,
)
from lagbench.core.policy.controller import require_own_controller
from lagbench.core.policy.kafka_log_in import require_kafka_log_in
from lagbench.core.policy.kinds import POLICY_VERSIONS, is_policy
from lagbench.core.policy.limits import (
    PolicyLimits,
    is_lag_scaler,
    lowest_target_records,
    unscaled_limits,
)
from lagbench.core.policy.loop_gain import loop_gain, standing_lag_seconds
from lagbench.core.policy.stream_windows import (
    START_PRECISION_SECONDS,
    aligned_start_ns,
    at_stream_start,
    require_one_start,
    stream_windows,
)
from lagbench.core.policy.target_environment import target_environment

__all__ = [
    "POLICY_VERSIONS",
    "START_PRECISION_SECONDS",
    "CheckedPolicy",
    "PolicyLimits",
    "admitted_policy",
    "aligned_start_ns",
    "at_stream_start",
    "check_fit",
    "check_policy",
    "is_lag_scaler",
    "is_policy",
    "loop_gain",
    "lowest_target_records",
    "refuse_broken_triggers",
    "require_kafka_log_in",
    "require_one_start",
    "require_own_controller",
    "standing_lag_seconds",
    "stream_windows",
    "target_environment",
    "unscaled_limits",
]
