"""Detect persistent lag: settings, windows of offset samples, the rule and its decision."""

from lagbench.core.lag_scaler.decision import Decision, LagUnavailable
from lagbench.core.lag_scaler.iggy_address import ALLOWED_ADDRESS, shown_address, split_iggy_address
from lagbench.core.lag_scaler.lag_source import (
    NO_OFFSET,
    GroupSample,
    GroupTopic,
    LagSource,
    Offsets,
    PartitionIds,
    failed_sample,
)
from lagbench.core.lag_scaler.metadata_keys import FROM_ENV, SECRET_KEYS
from lagbench.core.lag_scaler.metadata_reader import InvalidMetadata, MetadataProblem
from lagbench.core.lag_scaler.offset_history import OffsetHistory
from lagbench.core.lag_scaler.partition_lag import ages
from lagbench.core.lag_scaler.projection import evidence_intervals
from lagbench.core.lag_scaler.rule import WatchedRule
from lagbench.core.lag_scaler.rule_parameters import (
    LAG_SCALER_DEFAULT_THRESHOLD,
    MAX_GAP_INTERVALS,
    SPAN_TOLERANCE_INTERVALS,
    LagRule,
)
from lagbench.core.lag_scaler.settings import LagSettings, parse_lag_settings
from lagbench.core.lag_scaler.snapshot import SnapshotDiscarded, restore_window, save_window
from lagbench.core.lag_scaler.source_address import (
    KafkaCluster,
    SourceAddress,
    allowed_servers_of,
    is_own_cluster,
)
from lagbench.core.lag_scaler.window import GroupWindow

__all__ = [
    "ALLOWED_ADDRESS",
    "FROM_ENV",
    "LAG_SCALER_DEFAULT_THRESHOLD",
    "MAX_GAP_INTERVALS",
    "NO_OFFSET",
    "SECRET_KEYS",
    "SPAN_TOLERANCE_INTERVALS",
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
    "MetadataProblem",
    "OffsetHistory",
    "Offsets",
    "PartitionIds",
    "SnapshotDiscarded",
    "SourceAddress",
    "WatchedRule",
    "ages",
    "allowed_servers_of",
    "evidence_intervals",
    "failed_sample",
    "is_own_cluster",
    "parse_lag_settings",
    "restore_window",
    "save_window",
    "shown_address",
    "split_iggy_address",
]
