"""Hold a run's evidence: the input of all measures, and the windows derived from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from lagbench.core.clocks import ONE_CLOCK, Clock, ClockSet, clock_set
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS
from lagbench.core.measures.accounting.accounting import BadMessage, CommitMove
from lagbench.core.measures.evidence.group_events import GroupEvent, group_events, measured_until
from lagbench.core.measures.evidence.lag_readings import Gap, LagSeries, RateSeries
from lagbench.core.measures.evidence.observed_group import Observation, observation_of
from lagbench.core.measures.evidence.played_actions import (
    Hidden,
    PlayedAction,
    PoliciesInForce,
    TopicPartitions,
    played_actions,
    policies_in_force,
    topic_partitions,
)
from lagbench.core.measures.evidence.pod_timeline import PodTimeline, pod_timelines
from lagbench.core.measures.evidence.producer_report import LoadWindow, load_window
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.partition_work import PartitionWork
from lagbench.core.measures.rebalance_episodes import Handover
from lagbench.core.policy.policy import Policy
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.actions import balancers_of
from lagbench.core.scenario.consumer_kinds import kind_of
from lagbench.core.scenario.offered_load import OfferedLoad, load_spikes, offered_load
from lagbench.core.scenario.own_consumer import LevelName
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.telemetry.records import TelemetryRecord
from lagbench.core.telemetry.records_of_programs import (
    HpaSync,
    LoadStep,
    ProducerProgress,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import ReplicaSample


@dataclass(frozen=True, slots=True)
class Ledger:
    """The ledger's batches that have rows, by its own partition; ``landed_twice`` are rows."""

    batches: Mapping[int, int]
    landed_twice: int


@dataclass(frozen=True)
class RunEvidence:
    """Files, tables and records of one run, cut to the measurement window.

    All ``records`` are on the recorder's clock. ``earliest_median_seconds`` is the lowest median of
    the time lag in any bin of the table ``latency``; None without one.
    """

    manifest: Mapping[str, Any]
    scenario: Scenario
    policy: Policy
    fence: Mapping[str, Any] | None
    accounting: Mapping[str, Any] | None
    records: Sequence[TelemetryRecord]
    unknown_records: int
    lag: LagSeries
    rate: RateSeries
    handovers: Sequence[Handover]
    bad_messages: Sequence[BadMessage]
    work: PartitionWork
    earliest_median_seconds: float | None = None
    commit_moves: Sequence[CommitMove] = ()
    misplaced: int = 0  # messages in another partition than planned, of a topic that grew
    swapped: Mapping[int, Policy] = field(default_factory=dict)  # by the action's number
    stale_lag: Sequence[Gap] = ()  # times whose readings of the lag were stale, and are left out
    ledger: Ledger | None = None  # None: its rows are not in the folder
    clock_skews: Mapping[str, float] = field(default_factory=dict)
    """Seconds by which a pod's stamps are off the order of all records in the telemetry's log."""
    stored_scalers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Spec and status of ScaledObjects and HPAs by kind and name, as they were at the end."""

    @property
    def limits(self) -> PolicyLimits:
        """The limits of the policy at the start."""
        return self.policy.limits

    @cached_property
    def offered(self) -> OfferedLoad:
        """The planned load, from the scenario alone; of an observed group what the log took."""
        return offered_load(
            self.scenario.profile, where="scenario.yaml", may_be_empty=self.observation is not None
        )

    @cached_property
    def observation(self) -> Observation | None:
        """The observed group; None: the run made its own load and consumers."""
        return observation_of(self.manifest)

    @property
    def has_policy(self) -> bool:
        """True: a policy is known to be in force."""
        return self.observation is None or self.observation.policy is not None

    @property
    def members_are_pods(self) -> bool:
        """True: the group's members report themselves, by the names of their pods."""
        return self.observation is None and kind_of(self.scenario.consumer.kind).has_reports

    @property
    def accounting_level(self) -> LevelName | None:
        """Return the level of accounting; None: lagbench's own consumers report everything."""
        return self.scenario.consumer.accounting if self.observation is None else "commits"

    @cached_property
    def balancer(self) -> str:
        """How the group assigns partitions; of an observed one as the broker names it.

        Other code than lagbench's decides it itself: unknown.
        """
        if self.observation is not None:
            return self.observation.assignor or "unknown"
        if not kind_of(self.scenario.consumer.kind).has_reports:
            return "unknown"
        return self.scenario.consumer.balancer

    @property
    def balancers(self) -> tuple[str, ...]:
        """The balancers of the run, in their order: a rolling restart can bring another one."""
        if self.observation is not None or not kind_of(self.scenario.consumer.kind).has_reports:
            return (self.balancer,)
        return balancers_of(self.scenario.consumer.balancer, self.scenario.actions)

    @cached_property
    def pod_rate_per_second(self) -> float | None:
        """The highest rate of one pod; None: a record costs nothing, or it is not known."""
        if self.observation is not None:
            return self.observation.pod_rate_per_second
        return self.scenario.consumer.pod_rate_per_second

    @cached_property
    def load(self) -> LoadWindow:
        """When the load changed."""
        spikes = load_spikes(
            self.offered,
            started_replicas=self.limits.started_replicas,
            pod_rate=self.pod_rate_per_second,
        )
        return load_window(
            self.records,
            self.offered,
            spikes,
            recorded_start_at=next(iter(self.recorded_starts_at), None),
        )

    @cached_property
    def recorded_starts_at(self) -> list[int]:
        """The stream's start from manifest and fence, where it is on the producer's clock."""
        clock = self.producers_clock
        shift_ns = 0 if clock is None else clock.shift_ns
        recorded = [(of or {}).get("stream_started_at") for of in (self.manifest, self.fence)]
        return [int(at) - shift_ns for at in recorded if at is not None]

    @cached_property
    def producers_clock(self) -> Clock | None:
        """The clock on which the load was planned; None: not bounded.

        The load of an observed group is what the recorder read of the log, on its own clock.
        """
        if self.observation is not None:
            return ONE_CLOCK.of_pod("")
        recorded = StreamStarted | LoadStep | ProducerProgress | StreamFinished
        source = next((r.source for r in self.records if isinstance(r, recorded)), "")
        return self.clocks.of_pod(source)

    @property
    def producers_error_seconds(self) -> float | None:
        """The largest error of a planned instant; None: the producer's clock is not bounded."""
        clock = self.producers_clock
        return None if clock is None else clock.error_ns / NANOSECONDS

    @property
    def time_lag_error_seconds(self) -> float | None:
        """The largest error of done_at - planned_at; None: one of the clocks is not bounded.

        The pods that are named in the accounting stamped what they did. Records of an output topic
        have the broker's stamp, of which the recorder reads no clock. On one node, the difference
        of two stamps of a steady clock has no error.
        """
        by_pod = (self.accounting or {}).get("by_pod") or {}
        pods = () if self.accounting_level == "output" else tuple(by_pod)
        producers = self.producers_clock
        is_one_clock = {self.clocks.of_pod(pod) for pod in pods} == {producers}
        if is_one_clock and producers is not None and producers.is_steady:
            return 0.0
        done, planned = self.clocks.error_seconds(pods), self.producers_error_seconds
        return None if done is None or planned is None else done + planned

    @cached_property
    def sample_until_at(self) -> int | None:
        """The end of the planned window: the scenario sets it, and the tail comes after."""
        planned, end = self.load.planned_until_at, self.until_at
        return end if planned is None or end is None else min(planned, end)

    @cached_property
    def partitions(self) -> int:
        """Partitions of the events topic at the stream's start."""
        return first_partitions(self.records, self.scenario)

    @cached_property
    def topic_partitions(self) -> TopicPartitions:
        """Partitions of the events topic at each instant."""
        return topic_partitions(self.partitions, self.scenario.actions, self.actions)

    @cached_property
    def until_at(self) -> int | None:
        """The end of the measurement window."""
        return measured_until(
            self.records,
            self._all_events,
            stream_ended_at=self.load.stream_ended_at,
            may_scale_to_zero=self.limits.floor_replicas == 0,
        )

    @cached_property
    def from_at(self) -> int | None:
        """The start of the measurement window: the stream's, else the first record's."""
        if self.load.stream_started_at is not None:
            return self.load.stream_started_at
        return min((record.at for record in self.records), default=None)

    @cached_property
    def events(self) -> list[GroupEvent]:
        """The group's events before the bench stopped the consumers."""
        end = self.until_at
        return [event for event in self._all_events if end is None or event.at < end]

    @cached_property
    def _all_events(self) -> list[GroupEvent]:
        if not kind_of(self.scenario.consumer.kind).has_members:
            return []  # pods come and go, but the group has no members that could move
        return group_events(self.records, self.clocks)

    @cached_property
    def timelines(self) -> dict[str, PodTimeline]:
        """The consumer pods' timelines."""
        return pod_timelines(self.records, self.clocks)

    @cached_property
    def clocks(self) -> ClockSet:
        """The clocks that stamped the run."""
        return clock_set(self.records, self.manifest["fidelity"])

    @cached_property
    def actions(self) -> tuple[PlayedAction, ...]:
        """The scenario's actions with their stamps."""
        return played_actions(
            self.records, self.scenario.actions, stream_started_at=self.load.stream_started_at
        )

    @cached_property
    def hidden(self) -> Hidden:
        """The windows of the actions."""
        return Hidden(self.actions)

    @cached_property
    def policies(self) -> PoliciesInForce:
        """The limits in force at each instant; ``limits`` are those at the start."""
        swapped = {number: policy.limits for number, policy in self.swapped.items()}
        return policies_in_force(self.limits, swapped, self.actions)

    def policy_at(self, at: int) -> Policy:
        """Return the policy in force at ``at``."""
        number = self.policies.number_at(at)
        return self.policy if number is None else self.swapped[number]

    @cached_property
    def replica_samples(self) -> list[ReplicaSample]:
        """Replicas over the measurement window."""
        end = self.until_at
        samples = [record for record in self.records if isinstance(record, ReplicaSample)]
        return [sample for sample in samples if end is None or sample.at <= end]


def first_partitions(records: Sequence[TelemetryRecord], scenario: Scenario) -> int:
    """Return the partitions that the producer found at the stream's start, else the scenario's."""
    found = [record.partitions for record in records if isinstance(record, StreamStarted)]
    return found[0] if found else scenario.partitions


def hpa_sync_at_seconds(run: RunEvidence) -> float | None:
    """Return the time of the HPA's first sync in the stream, from the stream's start.

    With a planned phase it is the sync of the first period of Kubernetes that is nearest to it: a
    policy with a shorter sync of its own has several. Only an autoscaler that reports its syncs
    provides it; the HPA of a cluster does not.
    """
    started_at = run.load.stream_started_at
    if started_at is None:
        return None
    syncs = [r.at for r in run.records if isinstance(r, HpaSync) and r.at >= started_at]
    if not syncs:
        return None
    first, planned = min(syncs), run.scenario.hpa_sync_at_seconds
    if planned is not None:
        period = first + HPA_SYNC_SECONDS * NANOSECONDS
        due_at = started_at + planned * NANOSECONDS
        first = min((at for at in syncs if at < period), key=lambda at: abs(at - due_at))
    return (first - started_at) / NANOSECONDS
