"""The measures of one run: the models of ``measures.json``.

Everything here is computed from the run folder alone and can be computed again. Instants are unix
nanoseconds and end in ``_at``. ``None`` means not measured.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lagbench.core.measures.model import NANOSECONDS, Fidelity, MeasureModel
from lagbench.core.measures.pods.start_cost import StartCost
from lagbench.core.measures.scaling_models import (
    GapBin,
    PaidForItself,
    PartitionGaps,
    Reaction,
    ReactionLink,
    RebalanceEpisode,
    Rebalances,
    ReplicaChange,
    Scaling,
    Standstill,
    SurplusPod,
)

__all__ = [
    "NANOSECONDS",
    "Accounting",
    "BadMessageGroup",
    "BuildUp",
    "CommitMove",
    "ComponentCost",
    "Drain",
    "EndState",
    "Fidelity",
    "GapBin",
    "Generator",
    "GroupStranger",
    "Lag",
    "LoadWindow",
    "Measures",
    "ObserverCost",
    "PaidForItself",
    "PartitionGaps",
    "PodWork",
    "Reaction",
    "ReactionLink",
    "RebalanceEpisode",
    "Rebalances",
    "ReplicaChange",
    "Scaling",
    "Seconds",
    "SpikeWindow",
    "Standstill",
    "StartCost",
    "StrangeRecord",
    "SurplusPod",
    "TelemetryGap",
    "UnknownOwnership",
    "UnledgeredWork",
    "Validity",
]


class SpikeWindow(MeasureModel):
    """A spike of the load, from its planned start to its planned end."""

    started_at: int
    ended_at: int
    rate_before_per_second: float
    rate_peak_per_second: float


class LoadWindow(MeasureModel):
    """When the load changed, by the scenario; a sawtooth has many spikes, a steady stream none.

    ``spikes`` are those of the plan; their instants are None when the stream's start is not known.
    """

    stream_started_at: int | None
    first_spike_started_at: int | None
    last_spike_ended_at: int | None
    spikes: int
    stream_ended_at: int | None
    base_rate_per_second: float | None
    spike_rate_per_second: float | None
    planned_until_at: int | None = None  # the end of the scenario's own stretch, without the tail
    spike_windows: tuple[SpikeWindow, ...] = ()


class Generator(MeasureModel):
    """What the producer reported; lateness is sent minus planned instant."""

    planned: int | None = None
    sent: int | None = None
    acked: int | None = None
    failed: int | None = None
    unknown: int | None = None
    lateness_p50_ms: float | None = None
    lateness_p99_ms: float | None = None
    lateness_max_ms: float | None = None
    fell_behind: bool | None = None
    reason: str = ""
    stream_sha256: str | None = None
    most_waiting: int | None = None  # sent and not yet acknowledged, at most


class TelemetryGap(MeasureModel):
    """A stretch in which something was not seen."""

    what: str
    started_at: int
    ended_at: int
    gap_seconds: float
    reason: str


class Validity(MeasureModel):
    """Whether the run measures what it claims; an invalid run is never judged ``pass``."""

    is_valid: bool
    reasons: tuple[str, ...]  # why it is invalid
    notes: tuple[str, ...]  # what a reader should know; does not invalidate
    generator: Generator
    telemetry_gaps: tuple[TelemetryGap, ...]


class Seconds(MeasureModel):
    """Percentiles of a duration."""

    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class BuildUp(MeasureModel):
    """How fast lag grew from a spike's start until replicas rose (``lag/build_up.py``)."""

    started_at: int  # the spike's planned start
    ended_at: int | None = None
    until: Literal["scale_out", "peak"] | None = None  # which of the two came first
    from_records: int | None = None
    to_records: int | None = None
    sampled_seconds: float | None = None  # between the two samples
    records_per_second: float | None = None
    reason: str = ""  # why there is no rate; empty when there is


class Lag(MeasureModel):
    """Lag in messages (from offsets) and in seconds (done_at - planned_at)."""

    peak_records: int | None
    peak_at: int | None
    peak_partition: int | None  # the partition with the most lag of any sample
    peak_partition_records: int | None
    at_spike_end_records: int | None
    time_lag_seconds: Seconds  # of what was planned in the scenario's own stretch
    samples: int
    unknown_samples: int
    time_lag_seconds_after: Seconds | None = None  # of what was planned after it: the tail
    build_up: BuildUp | None = None  # of the fastest spike; None: no spike, or measured before it


class Drain(MeasureModel):
    """From the end of the last spike to total lag at or below the threshold."""

    spike_ended_at: int | None
    drained_at: int | None
    drain_seconds: float | None
    precision_seconds: float | None  # to the last sample above; it may have drained since
    threshold_records: float | None
    threshold_text: str
    falls_monotonically: bool | None
    max_rise_records: int | None  # over any 5 s at full parallelism
    tolerance_records: float | None
    longest_plateau_seconds: float | None
    monotone_text: str
    skew_limited_seconds: float | None  # no drain can be shorter
    hottest_partition: int | None
    above_until_at: int | None = None  # lag was last known above the threshold (spike end, if not)
    clock_error_seconds: float | None = 0.0  # of the spike's end; None: that clock is not bounded


class PodWork(MeasureModel):
    """Records finished by a pod, and how many of them were done before by somebody."""

    pod: str
    processed: int
    duplicated: int


class BadMessageGroup(MeasureModel):
    """Bad messages of one class with the same pod and cause."""

    message_class: str  # lost, duplicated, reordered, zombie, …
    pod: str | None
    other_pod: str | None
    cause: str
    cause_pod: str | None
    count: int
    partitions: tuple[int, ...]
    first_at: int | None


class StrangeRecord(MeasureModel):
    """A record in one of the run's topics that is none of the run."""

    topic: str  # events, processed or telemetry
    partition: int | None
    offset: int | None
    detail: str


class UnknownOwnership(MeasureModel):
    """What a pod held is not known there: a record of its rebalances is missing."""

    pod: str
    from_at: int | None  # None: from its begin
    until_at: int
    partitions: tuple[int, ...]


class UnledgeredWork(MeasureModel):
    """At most so many messages were done by a killed pod without being in the ledger."""

    pod: str
    killed_at: int
    seconds: float
    messages: int


class CommitMove(MeasureModel):
    """The group's committed offset was set back; ``at`` is the reading that shows it."""

    at: int
    partition: int
    from_offset: int
    to_offset: int


class Accounting(MeasureModel):
    """Accounting by identity, as Spark wrote it to ``accounting.json``.

    ``lost_in_broker`` are acknowledged messages that the log lacks and that no expiry explains;
    None unless the producer said what was acknowledged. A count of None was not recorded.
    ``accounting/message_classes.py`` names the classes.
    """

    planned: int | None = None
    produced_acked: int | None = None
    produced_failed: int | None = None
    produced_unknown: int | None = None  # neither acknowledged nor failed at the producer's end
    in_log: int | None = None
    expired: int | None = None  # offsets that the log gave up before they were accounted for
    log_holes: int | None = None  # offsets within the log that hold no message
    processed_records: int | None = None
    processed_distinct: int | None = None
    lost: int | None = None  # by the consumers: in the log, committed, never processed
    lost_in_broker: int | None = None
    duplicated: int | None = None  # extra processings
    duplicated_messages: int | None = None
    reordered: int | None = None
    zombie: int | None = None
    not_yet_consumed: int | None = None
    produced_twice: int | None = None
    not_in_log: int | None = None  # acknowledged, but at no offset
    not_in_log_failed: int | None = None  # at no offset, and known to have failed
    not_in_log_unknown: int | None = None  # at no offset, and known to have no outcome
    not_in_log_excused: int | None = None  # at no offset; as many failed, but which is not told
    unknown_message: int | None = None  # processed, but the log holds no such message
    foreign: int | None = None  # in the log, but no event of this run
    processed_foreign: int | None = None  # processings of those
    foreign_ledger_records: int | None = None
    foreign_telemetry_records: int | None = None
    zombie_in_doubt: int | None = None  # within the bound of two clocks
    reordered_in_doubt: int | None = None  # as above
    outside_run: int | None = None  # processings stamped before or after the run
    strangers: tuple[StrangeRecord, ...] = ()  # the first of each topic
    unknown_ownership: tuple[UnknownOwnership, ...] = ()
    unbounded_pods: tuple[str, ...] = ()  # that worked by a clock nobody could ask
    unledgered: tuple[UnledgeredWork, ...] = ()
    commit_moves: tuple[CommitMove, ...] = ()
    below_fence: int | None = None  # offsets of the events topic up to the fence
    in_partitions: int | None = None  # in_log, by its partitions
    processed_by_pods: int | None = None  # processed_records, by their pods
    duplicated_by_pods: int | None = None  # duplicated, by their pods
    broken_classes: tuple[str, ...] = ()  # classes whose count is not that of their rows
    lacks: tuple[str, ...] = ()  # counts that a run of its version records
    hottest_partition_share: float | None = None
    by_cause: dict[str, int] = Field(default_factory=dict)
    by_pod: tuple[PodWork, ...] = ()
    bad_messages: tuple[BadMessageGroup, ...] = ()

    @property
    def commits_moved_back(self) -> int:
        """How often the group's committed offset was set back."""
        return len(self.commit_moves)

    @property
    def lost_in_all(self) -> int | None:
        """Messages that are proven lost, by consumers or in the broker."""
        return None if self.lost is None else self.lost + (self.lost_in_broker or 0)


class ComponentCost(MeasureModel):
    """CPU and memory of one part of the bench over the run."""

    component: str
    cpu_seconds: float
    cpu_share: float  # of one core over the observed time
    max_memory_bytes: int


class ObserverCost(MeasureModel):
    """What the bench itself took from the machine."""

    observed_seconds: float | None
    components: tuple[ComponentCost, ...]
    total_cpu_seconds: float | None


class EndState(MeasureModel):
    """The state in which the measurement ended."""

    is_drained: bool | None  # committed == end for every partition, at the fence
    undrained_partitions: tuple[int, ...]
    undrained_records: int | None
    replicas: int | None
    floor_replicas: int | None
    is_at_floor: bool | None
    group_state: str | None
    is_group_stable: bool | None
    log_records: int | None = None  # end offsets of all partitions at the fence, in sum


class GroupStranger(MeasureModel):
    """A member of the consumer group that is no pod of the run, or members that nothing explains.

    ``seen_seconds`` is how long readings showed it; it may have been there ``precision_seconds``
    longer. Without a name (``client_id`` None) only the number of members told of it: more than the
    run's pods can have had; its partitions are then those that no pod owned all that time.
    """

    client_id: str | None
    host: str | None
    members: int  # at once, at most
    partitions: tuple[int, ...]  # all that it ever held
    first_seen_at: int
    last_seen_at: int
    seen_seconds: float
    precision_seconds: float


class Measures(MeasureModel):
    """Everything that was measured in one run."""

    run_id: str
    scenario: str
    policy: str
    seed: int
    fidelity: Fidelity
    balancer: str
    measured_from_at: int | None
    measured_until_at: int | None
    run_seconds: float | None
    load: LoadWindow
    validity: Validity
    reaction: Reaction
    lag: Lag
    drain: Drain
    rebalances: Rebalances
    scaling: Scaling
    paid_for_itself: PaidForItself
    accounting: Accounting
    observer_cost: ObserverCost
    start_cost: StartCost = StartCost()
    end_state: EndState
    group_strangers: tuple[GroupStranger, ...] = ()
    group_unseen: tuple[TelemetryGap, ...] = ()  # who was in the group is not known in these
    standstill: Standstill | None = None  # None: measured before it was there
    work_unknown: str = ""  # what of the group's work is not recorded; empty: nothing
    contradictions: tuple[str, ...] = ()  # between files of the run folder
    rate_doubt: str = ""  # where the rate contradicts the ledger; empty: nowhere
