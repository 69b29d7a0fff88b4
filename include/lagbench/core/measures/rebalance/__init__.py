"""Measure the cost of rebalances and standstills."""

from lagbench.core.measures.rebalance.episodes import (
    EpisodeSpan,
    RebalanceEpisode,
    episode_spans,
)
from lagbench.core.measures.rebalance.idle_scale_downs import idle_scale_downs_text
from lagbench.core.measures.rebalance.partition_gaps import Handover, partition_gaps
from lagbench.core.measures.rebalance.partition_work import (
    POD_BINS,
    PartitionWork,
    PodRates,
    rates_by_life,
    work_by_lag,
    work_of_bins,
)
from lagbench.core.measures.rebalance.rate_dip import (
    NO_WORK_REASONS,
    RECOVERED_SHARE,
    mean_rate_before,
    rate_series,
)
from lagbench.core.measures.rebalance.standstill import (
    COSTS_PER_LIMIT,
    Standstill,
    asleep_periods,
    standstill,
)
from lagbench.core.measures.rebalance.summary import (
    GroupWork,
    Rebalances,
    rebalance_episodes,
    rebalances,
    unanswered_steps,
)
from lagbench.core.measures.rebalance.watched_group import GroupLook, WatchedGroup
from lagbench.core.measures.rebalance.work_by_commits import (
    bins_without_reading,
    rate_of_commits,
    work_by_commits,
)

__all__ = [
    "COSTS_PER_LIMIT",
    "NO_WORK_REASONS",
    "POD_BINS",
    "RECOVERED_SHARE",
    "EpisodeSpan",
    "GroupLook",
    "GroupWork",
    "Handover",
    "PartitionWork",
    "PodRates",
    "RebalanceEpisode",
    "Rebalances",
    "Standstill",
    "WatchedGroup",
    "asleep_periods",
    "bins_without_reading",
    "episode_spans",
    "idle_scale_downs_text",
    "mean_rate_before",
    "partition_gaps",
    "rate_of_commits",
    "rate_series",
    "rates_by_life",
    "rebalance_episodes",
    "rebalances",
    "standstill",
    "unanswered_steps",
    "work_by_commits",
    "work_by_lag",
    "work_of_bins",
]
