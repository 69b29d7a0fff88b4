"""What scaling did and what it cost: reaction chain, rebalances, replicas.

Definitions are stated where the numbers are computed: ``reaction/chain.py``,
``rebalance/episodes.py``, ``rebalance/rate_dip.py``, ``rebalance/standstill.py``,
``replicas/flapping.py``, ``pods/pod_time.py``, ``pods/paid_for_itself.py``.
"""

from __future__ import annotations

from typing import Literal

from lagbench.core.measures.model import MeasureModel

EpisodeTrigger = Literal["start", "scale_up", "scale_down", "pod_death", "other"]
RebalanceProtocol = Literal["eager", "cooperative", "consumer"]
RulingClock = Literal["hpa_sync", "keda_poll", "unknown"]
ReactionOutcome = Literal["reacted", "not_due", "did_not_come", "unknown"]


class ReactionLink(MeasureModel):
    """One instant of the reaction chain and the time since the link before it."""

    name: Literal["t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"]
    title: str
    at: int | None  # as placed in the chain: never before the previous link
    stamped_at: int | None  # as its owner stamped it
    part_seconds: float | None  # since the previous known link; t0 has none
    precision_seconds: float | None  # how exact the stamp is, skew included; None: not bounded
    note: str = ""


class ClockBound(MeasureModel):
    """How far a clock is ahead of the recorder's; not steady: it moved inside the bound."""

    clock: str
    low_seconds: float
    high_seconds: float
    is_steady: bool
    answers: int


class Clocks(MeasureModel):
    """The clocks that stamped the chain."""

    is_one_clock: bool
    bounds: tuple[ClockBound, ...]
    text: str
    unbounded_pods: tuple[str, ...] = ()


class Reaction(MeasureModel):
    """From the load step to the first record done by a new pod; of several steps the worst one."""

    links: tuple[ReactionLink, ...]
    pod: str | None  # the first new pod that finished a record; the chain is that pod's
    is_complete: bool
    reason: str  # why the chain ends early; empty when it is complete
    total_seconds: float | None  # t0 to t8
    assigned_seconds: float | None  # t0 to Ready and assigned, by their stamps: what the SLO judges
    parts_sum_seconds: float | None
    parts_sum_to_total: bool | None
    threshold_records: float | None
    threshold_text: str
    is_threshold_crossed: bool | None
    ruling_clock: RulingClock
    ruling_clock_text: str
    clocks: Clocks | None = None  # None: measured before clocks were bounded
    assigned_low_seconds: float | None = None  # the interval of ``assigned_seconds``
    assigned_high_seconds: float | None = None  # None: a clock is not bounded
    outcome: ReactionOutcome | None = None  # None: the load has no step, or it was not judged
    outcome_text: str = ""
    step_number: int | None = None  # from 1: which load step the chain is of
    step_count: int | None = None
    unknown_text: str = ""  # another step whose reaction is not known; empty: none


class RebalanceEpisode(MeasureModel):
    """One rebalance of the group and its dip."""

    number: int  # from 1, in order of time
    started_at: int
    ended_at: int | None
    duration_seconds: float | None
    trigger: EpisodeTrigger
    trigger_text: str
    pods_joined: tuple[str, ...]
    pods_left: tuple[str, ...]
    members_before: int
    members_after: int
    protocol: RebalanceProtocol | None
    partitions_moved: int
    mean_rate_before_per_second: float | None
    min_rate_per_second: float | None
    dip_percent: float | None
    dip_area_messages: float | None
    recovery_seconds: float | None
    observed_seconds: float  # how long the rate was watched after the episode began
    reason: str  # why the dip or its recovery was not measured; empty when both were
    expected_rate_per_second: float | None = None  # in the deepest window, as the next; older: None
    window_seconds: float | None = None
    dip_noise_percent: float | None = (
        None  # what undisturbed stretches reach; None: there were none
    )
    short_dip_percent: float | None = None  # the deepest window of a fifth of that length
    short_dip_noise_percent: float | None = None
    area_seconds: float | None = None  # the area in seconds of the expected rate
    area_noise_seconds: float | None = None
    step_ats: tuple[int, ...] = ()  # the replica changes that it answers


class GapBin(MeasureModel):
    """Handovers with a gap above the previous bin's bound and up to ``up_to_seconds``."""

    up_to_seconds: float | None  # None: everything above
    count: int


class PartitionGaps(MeasureModel):
    """Handovers of partitions: last record by the old owner to the first by the new one."""

    handovers: int
    p50_seconds: float | None
    p95_seconds: float | None
    max_seconds: float | None
    max_partition: int | None
    histogram: tuple[GapBin, ...]


class Rebalances(MeasureModel):
    """All episodes; the summary is over scale steps (``scale_up`` and ``scale_down``) alone."""

    episodes: tuple[RebalanceEpisode, ...]
    count: int
    scale_step_count: int
    max_dip_percent: float | None
    total_dip_area_messages: float | None
    max_recovery_seconds: float | None
    partition_gaps: PartitionGaps | None
    max_short_dip_percent: float | None = None
    max_area_seconds: float | None = None
    unanswered_step_ats: tuple[int, ...] = ()  # replica changes under load without an episode
    detail: str = ""  # what the expected rate was computed from


class Standstill(MeasureModel):
    """The longest time without work done although work waited: ``rebalance/standstill.py``."""

    group_seconds: float | None  # None: nobody saw the group's work
    group_low_seconds: float | None
    group_high_seconds: float | None
    group_started_at: int | None
    partition: int | None  # the one that stood longest; None: not known
    partition_seconds: float | None
    partition_started_at: int | None
    message_seconds: float  # what one message costs: work in flight is work
    reason: str  # why a part was not measured; empty when all was


class ReplicaChange(MeasureModel):
    """One change of the wanted replicas."""

    at: int
    replicas_before: int
    replicas_after: int
    by: Literal["keda", "hpa", "user", "unknown"]
    reason: str
    precision_seconds: float
    is_reversal: bool
    is_flip: bool


class SurplusPod(MeasureModel):
    """A pod that was a member while there were more members than partitions, and got none."""

    pod: str
    zero_partition_seconds: float
    records_done: int | None


class Scaling(MeasureModel):
    """Replicas over the run and what they were used for."""

    changes: tuple[ReplicaChange, ...]
    change_count: int
    reversals: int
    flips: int
    floor_replicas: int | None
    ceiling_replicas: int | None
    max_replicas: int | None  # wanted
    max_ready_replicas: int | None
    partitions: int
    pod_minutes: float | None  # over the scenario's own stretch, as is the next
    idle_ratio: float | None
    zero_partition_pod_seconds: float | None
    baseline_at_floor: bool | None
    baseline_text: str
    max_members: int | None
    surplus_pods: tuple[SurplusPod, ...]
    surplus_pods_idle: bool | None  # None: there were never more members than partitions
    surplus_text: str
    unseen_text: str = ""  # where replicas may have changed unseen; empty: nowhere
    pod_minutes_after: float | None = None  # from the stretch's end to the end of the measurement
    has_baseline: bool = True  # False: the load begins with a spike
    max_group_members: int | None = None  # as the broker counted them


class PaidForItself(MeasureModel):
    """Whether the added pods cleared more than their rebalances cost."""

    started_at: int | None
    ended_at: int | None
    base_rate_per_second: float | None  # before the first added pod worked
    cleared_records: float | None  # by the added pods, before the dips are taken off
    lost_to_dips_records: float | None
    net_records: float | None
    added_pod_minutes: float | None
    net_records_per_pod_minute: float | None
    has_paid: bool | None
    reason: str  # why it was not measured; empty when it was
