"""Read a run's records on one clock, and decide whether they can be trusted."""

from lagbench.core.measures.evidence.clock_offset import RunningBound, answer_bound, probe_at
from lagbench.core.measures.evidence.clock_step import ClockReading, ClockSteps, closest_reading
from lagbench.core.measures.evidence.clocks import (
    API_SERVER,
    ONE_CLOCK,
    Clock,
    Clocks,
    ClockSet,
    clock_set,
    clock_steps,
    clocks_measure,
    on_recorders_clock,
)
from lagbench.core.measures.evidence.contradictions import (
    contradictions_of_an_empty_group,
    contradictions_of_commits,
    contradictions_of_lag,
    contradictions_of_members,
    contradictions_of_plan,
    contradictions_of_policy,
    contradictions_of_scalings,
    contradictions_of_the_end,
    contradictions_of_time_lag,
    lost_rebalances,
    timeline_gaps,
    unrecorded_members,
)
from lagbench.core.measures.evidence.format import (
    CURRENT_FORMAT,
    FORMAT_FIELD,
    MEMBERS_FORMAT,
    folder_format,
    unrecorded_text,
)
from lagbench.core.measures.evidence.group_events import GroupEvent, GroupState, group_events
from lagbench.core.measures.evidence.group_strangers import (
    GroupStranger,
    group_strangers,
    group_unseen,
)
from lagbench.core.measures.evidence.load import (
    Validity,
    fell_behind,
    generator,
    lateness_text,
    telemetry_gaps,
    validity,
)
from lagbench.core.measures.evidence.load_taken import (
    HeldBack,
    doubts_of_the_load,
    held_back,
    log_ahead,
    log_behind,
)
from lagbench.core.measures.evidence.load_window import LoadWindow, SpikeWindow, load_window
from lagbench.core.measures.evidence.measured_stretch import measured_until
from lagbench.core.measures.evidence.pod_lives import FINAL_PHASES, PodLife, pod_lives
from lagbench.core.measures.evidence.producer_records import contradictions_of_the_producer
from lagbench.core.measures.evidence.seq_ranges import SeqRanges
from lagbench.core.measures.evidence.series import BIN_NS, LagSeries, RateSeries, lag_series
from lagbench.core.measures.evidence.unseen import (
    BLIND_SECONDS,
    TelemetryGap,
    Unseen,
    unseen_between,
    unseen_text,
)

__all__ = [
    "API_SERVER",
    "BIN_NS",
    "BLIND_SECONDS",
    "CURRENT_FORMAT",
    "FINAL_PHASES",
    "FORMAT_FIELD",
    "MEMBERS_FORMAT",
    "ONE_CLOCK",
    "Clock",
    "ClockReading",
    "ClockSet",
    "ClockSteps",
    "Clocks",
    "GroupEvent",
    "GroupState",
    "GroupStranger",
    "HeldBack",
    "LagSeries",
    "LoadWindow",
    "PodLife",
    "RateSeries",
    "RunningBound",
    "SeqRanges",
    "SpikeWindow",
    "TelemetryGap",
    "Unseen",
    "Validity",
    "answer_bound",
    "clock_set",
    "clock_steps",
    "clocks_measure",
    "closest_reading",
    "contradictions_of_an_empty_group",
    "contradictions_of_commits",
    "contradictions_of_lag",
    "contradictions_of_members",
    "contradictions_of_plan",
    "contradictions_of_policy",
    "contradictions_of_scalings",
    "contradictions_of_the_end",
    "contradictions_of_the_producer",
    "contradictions_of_time_lag",
    "doubts_of_the_load",
    "fell_behind",
    "folder_format",
    "generator",
    "group_events",
    "group_strangers",
    "group_unseen",
    "held_back",
    "lag_series",
    "lateness_text",
    "load_window",
    "log_ahead",
    "log_behind",
    "lost_rebalances",
    "measured_until",
    "on_recorders_clock",
    "pod_lives",
    "probe_at",
    "telemetry_gaps",
    "timeline_gaps",
    "unrecorded_members",
    "unrecorded_text",
    "unseen_between",
    "unseen_text",
    "validity",
]
