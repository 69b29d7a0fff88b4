"""Everything that a run left behind, read once: the input of all measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import yaml
from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.accounting import BadMessage, CommitMove, commits_moved_back
from lagbench.core.measures.evidence import (
    Clock,
    ClockSet,
    GroupEvent,
    LagSeries,
    LoadWindow,
    PodLife,
    RateSeries,
    clock_set,
    group_events,
    load_window,
    measured_until,
    on_recorders_clock,
    pod_lives,
    timeline_gaps,
)
from lagbench.core.measures.lag import last_committed, pod_rate_per_second
from lagbench.core.measures.rebalance import Handover, PartitionWork, work_by_lag
from lagbench.core.policy import PolicyLimits, policy_limits
from lagbench.core.scenario import Scenario
from lagbench.core.scenario.stream import OfferedLoad, load_spikes, offered_load
from lagbench.core.telemetry import (
    LoadStep,
    ProducerProgress,
    ReplicaSample,
    StreamFinished,
    StreamStarted,
    TelemetryRecord,
)
from lagbench.errors import WrongInput
from lagbench.results import run_tables
from lagbench.results.message_tables import read_partition_work


@dataclass(frozen=True)
class RunEvidence:
    """Files, tables and records of one run, cut to the measured stretch.

    All ``records`` are on the recorder's clock. ``earliest_median_seconds`` is the lowest median of
    the time lag in any bin of the table ``latency``; None without one.
    """

    manifest: Mapping[str, Any]
    scenario: Scenario
    limits: PolicyLimits
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
    timeline_gaps: str = ""
    latest_seconds: float | None = None  # the longest time lag of any bin
    hpas: Mapping[str, Any] = field(default_factory=dict)  # spec and status by name, as seen last

    @cached_property
    def offered(self) -> OfferedLoad:
        """The planned load, of which the scenario alone tells."""
        return offered_load(self.scenario.profile, where="scenario.yaml")

    @cached_property
    def pod_rate_per_second(self) -> float | None:
        """The most that one pod can do; None: a record costs nothing."""
        settings = self.scenario.consumer
        return pod_rate_per_second(settings.process_ms, settings.concurrency)

    @cached_property
    def load(self) -> LoadWindow:
        """When the load changed."""
        floor, pod_rate = self.limits.started_replicas, self.pod_rate_per_second
        spikes = load_spikes(
            self.offered, floor_rate_per_second=None if pod_rate is None else floor * pod_rate
        )
        return load_window(
            self.records,
            self.offered,
            spikes,
            recorded_start_at=next(iter(self.recorded_starts_at), None),
        )

    @cached_property
    def recorded_starts_at(self) -> list[int]:
        """The stream's start as manifest and fence have it, which is the producer's clock."""
        clock = self.producers_clock
        shift_ns = 0 if clock is None else clock.shift_ns
        told = [(of or {}).get("stream_started_at") for of in (self.manifest, self.fence)]
        return [int(at) - shift_ns for at in told if at is not None]

    @cached_property
    def producers_clock(self) -> Clock | None:
        """The clock on which the load was planned; None: not bounded."""
        told = StreamStarted | LoadStep | ProducerProgress | StreamFinished
        source = next((r.source for r in self.records if isinstance(r, told)), "")
        return self.clocks.of_pod(source)

    @cached_property
    def sample_until_at(self) -> int | None:
        """The end of the sample's stretch: the scenario fixes it, and the tail comes after."""
        planned, end = self.load.planned_until_at, self.until_at
        return end if planned is None or end is None else min(planned, end)

    @cached_property
    def partitions(self) -> int:
        """Partitions of the events topic at the stream's start."""
        return _first_partitions(self.records, self.scenario)

    @cached_property
    def until_at(self) -> int | None:
        """The end of the measured stretch."""
        return measured_until(
            self.records,
            self._all_events,
            stream_ended_at=self.load.stream_ended_at,
            may_scale_to_zero=self.limits.floor_replicas == 0,
        )

    @cached_property
    def from_at(self) -> int | None:
        """The start of the measured stretch: the stream's, else the first record's."""
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
        return group_events(self.records, self.clocks)

    @cached_property
    def lives(self) -> dict[str, PodLife]:
        """The consumer pods' lives."""
        return pod_lives(self.records, self.clocks)

    @cached_property
    def clocks(self) -> ClockSet:
        """The clocks that stamped the run."""
        return clock_set(self.records, self.manifest["fidelity"])

    @cached_property
    def replica_samples(self) -> list[ReplicaSample]:
        """Replicas over the measured stretch."""
        end = self.until_at
        samples = [record for record in self.records if isinstance(record, ReplicaSample)]
        return [sample for sample in samples if end is None or sample.at <= end]


def read_evidence(folder: RunFolder) -> RunEvidence:
    """Read a run folder.

    :raises NotReady: a file or table that every run must have is missing.
    :raises WrongInput: the scenario or the policy of the folder is none.
    """
    stamped, unknown = run_tables.read_telemetry(folder)
    manifest, scenario = folder.read_json(folder.manifest), read_scenario(folder)
    records = on_recorders_clock(stamped, clock_set(stamped, manifest["fidelity"]))
    lag = run_tables.read_lag(folder, first_partitions=_first_partitions(records, scenario))
    bins, offered = run_tables.read_offered(folder)
    rate = run_tables.read_rate(folder, until_at=max((r.at for r in records), default=None))
    accounting = folder.read_json(folder.accounting) if folder.accounting.exists() else None
    return RunEvidence(
        manifest=manifest,
        scenario=scenario,
        limits=policy_limits(_yaml(folder, folder.read_text(folder.policy), "policy.yaml")),
        fence=folder.read_json(folder.fence) if folder.fence.exists() else None,
        accounting=accounting,
        records=records,
        unknown_records=unknown,
        lag=lag,
        rate=rate,
        handovers=run_tables.read_handovers(folder),
        bad_messages=run_tables.read_bad_messages(folder),
        work=read_partition_work(folder, rate, scenario.partitions, last_committed(lag))
        or work_by_lag(rate, lag, int((accounting or {}).get("lost") or 0)),
        earliest_median_seconds=run_tables.read_earliest_median(folder),
        commit_moves=_commit_moves(folder),
        hpas=_hpas(folder),
        latest_seconds=run_tables.read_latest(folder),
        timeline_gaps=timeline_gaps(bins, offered, accounting),
    )


def _first_partitions(records: Sequence[TelemetryRecord], scenario: Scenario) -> int:
    """Return what the producer found when the stream began, else what was asked for."""
    found = [record.partitions for record in records if isinstance(record, StreamStarted)]
    return found[0] if found else scenario.partitions


def _hpas(folder: RunFolder) -> Mapping[str, Any]:
    if not folder.autoscaler.exists():
        return {}
    found: Mapping[str, Any] = folder.read_json(folder.autoscaler)["HorizontalPodAutoscaler"]
    return found


def _commit_moves(folder: RunFolder) -> tuple[CommitMove, ...]:
    fenced = None
    if folder.fence.exists():
        fence = folder.read_json(folder.fence)
        offsets = {int(p): int(at) for p, at in fence["committed"].items() if at is not None}
        if fence.get("fenced_at"):
            fenced = (int(fence["fenced_at"]), offsets)
    return commits_moved_back(run_tables.read_commits(folder), fenced)


def read_scenario(folder: RunFolder) -> Scenario:
    """Return the run's effective scenario.

    :raises WrongInput: the file is no scenario.
    """
    content = _yaml(folder, folder.read_text(folder.scenario), "scenario.yaml")
    try:
        return Scenario.model_validate(content)
    except ValidationError as broken:
        first = broken.errors()[0]
        raise WrongInput(
            where=f"run {folder.run_id}: scenario.yaml",
            field=".".join(str(part) for part in first["loc"]),
            value=first["input"],
            allowed=first["msg"],
        ) from broken


def _yaml(folder: RunFolder, text: str, name: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as broken:
        content = str(broken)
    if not isinstance(content, dict):
        raise WrongInput(
            where=f"run {folder.run_id}: {name}",
            field="content",
            value=str(content)[:80],
            allowed="a YAML mapping",
        )
    return content
