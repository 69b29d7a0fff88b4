"""Read a run's records on one clock, and decide whether they can be trusted."""

from lagbench.core.measures.evidence.actions import (
    NOTHING_HIDDEN,
    Hidden,
    PlayedAction,
    balancers_at,
    played_actions,
)
from lagbench.core.measures.evidence.clock_offset import RunningBound, answer_bound, probe_at
from lagbench.core.measures.evidence.clock_step import ClockReading, ClockSteps, closest_reading
from lagbench.core.measures.evidence.clocks import Clocks, clocks_measure
from lagbench.core.measures.evidence.gaps import (
    GAP_SECONDS,
    READ_WITHIN_SECONDS,
    Gap,
    TelemetryGap,
    gaps_between,
    gaps_text,
    telemetry_gaps,
)
from lagbench.core.measures.evidence.generator import (
    FEWEST_WAITING,
    Generator,
    HeldBack,
    fell_behind,
    generator,
    held_back,
    lateness_text,
    may_wait,
)
from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState, group_events
from lagbench.core.measures.evidence.group_strangers import (
    GroupStranger,
    group_gaps,
    group_strangers,
)
from lagbench.core.measures.evidence.in_force import (
    PoliciesInForce,
    TopicPartitions,
    policies_in_force,
    topic_partitions,
)
from lagbench.core.measures.evidence.load_window import LoadWindow, SpikeWindow, load_window
from lagbench.core.measures.evidence.log_cuts import cuts_until, first_cuts, growth
from lagbench.core.measures.evidence.measurement_window import STOPPING_PHASE, measured_until
from lagbench.core.measures.evidence.observation import (
    NO_POLICY,
    OBSERVED_FIELD,
    Observation,
    observation_of,
)
from lagbench.core.measures.evidence.observed_load import (
    observed_pod_rate,
    observed_rates,
)
from lagbench.core.measures.evidence.observed_members import member_pods, observed_members
from lagbench.core.measures.evidence.own_members import with_pods_of_members
from lagbench.core.measures.evidence.pod_lives import PodLives, by_life, pod_lives, pod_of_life
from lagbench.core.measures.evidence.pod_timeline import FINAL_PHASES, PodTimeline, pod_timelines
from lagbench.core.measures.evidence.seq_ranges import SeqRanges
from lagbench.core.measures.evidence.series import (
    BIN_NS,
    LagSeries,
    RateSeries,
    lag_of,
    lag_series,
)
from lagbench.core.measures.evidence.stale_lag import without_stale
from lagbench.core.measures.evidence.unrecorded import (
    lost_rebalances,
    unrecorded_members,
    unwatched_text,
)

__all__ = [
    "BIN_NS",
    "FEWEST_WAITING",
    "FINAL_PHASES",
    "GAP_SECONDS",
    "NOTHING_HIDDEN",
    "NO_POLICY",
    "OBSERVED_FIELD",
    "READ_WITHIN_SECONDS",
    "STOPPING_PHASE",
    "ClockReading",
    "ClockSteps",
    "Clocks",
    "Gap",
    "Generator",
    "GroupEvent",
    "GroupState",
    "GroupStranger",
    "HeldBack",
    "Hidden",
    "LagSeries",
    "LoadWindow",
    "Observation",
    "PlayedAction",
    "PodLives",
    "PodTimeline",
    "PoliciesInForce",
    "RateSeries",
    "RunningBound",
    "SeqRanges",
    "SpikeWindow",
    "TelemetryGap",
    "TopicPartitions",
    "answer_bound",
    "balancers_at",
    "by_life",
    "clocks_measure",
    "closest_reading",
    "cuts_until",
    "fell_behind",
    "first_cuts",
    "gaps_between",
    "gaps_text",
    "generator",
    "group_events",
    "group_gaps",
    "group_strangers",
    "growth",
    "held_back",
    "lag_of",
    "lag_series",
    "lateness_text",
    "load_window",
    "lost_rebalances",
    "may_wait",
    "measured_until",
    "member_pods",
    "observation_of",
    "observed_members",
    "observed_pod_rate",
    "observed_rates",
    "played_actions",
    "pod_lives",
    "pod_of_life",
    "pod_timelines",
    "policies_in_force",
    "probe_at",
    "telemetry_gaps",
    "topic_partitions",
    "unrecorded_members",
    "unwatched_text",
    "with_pods_of_members",
    "without_stale",
]
