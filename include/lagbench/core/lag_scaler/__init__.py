"""Detect persistent lag: settings, windows of offset samples, the rule and its decision."""

from lagbench.core.lag_scaler.lag_clusters import KafkaCluster, SourceAddress, allowed_servers_of
from lagbench.core.lag_scaler.lag_metadata import InvalidMetadata, LagSettings, parse_lag_settings
from lagbench.core.lag_scaler.lag_rule import (
    LAG_SCALER_DEFAULT_THRESHOLD,
    Decision,
    LagRule,
    LagUnavailable,
)
from lagbench.core.lag_scaler.lag_source import (
    NO_OFFSET,
    GroupSample,
    GroupTopic,
    LagSource,
    failed_sample,
)
from lagbench.core.lag_scaler.lag_window import GroupWindow
from lagbench.core.lag_scaler.offset_history import OffsetHistory, ages

__all__ = [
    "LAG_SCALER_DEFAULT_THRESHOLD",
    "NO_OFFSET",
    "Decision",
    "GroupSample",
    "GroupTopic",
    "GroupWindow",
    "InvalidMetadata",
    "KafkaCluster",
    "LagRule",
    "LagSettings",
    "LagSource",
    "LagUnavailable",
    "OffsetHistory",
    "SourceAddress",
    "ages",
    "allowed_servers_of",
    "failed_sample",
    "parse_lag_settings",
]
