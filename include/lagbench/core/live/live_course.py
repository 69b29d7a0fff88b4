"""Turn the records of a run in progress into its live lines.

A figure that was not renewed in time is None, never 0. The instant of arrival counts (``now``, unix
nanoseconds of the follower's clock), because a record's own stamp is of another clock.
"""

from __future__ import annotations

from collections import deque
from math import ceil

import numpy as np

from lag_scaler.offsets import NO_OFFSET, OffsetHistory, ages
from lag_scaler.offsets import GroupSample as SampledGroup
from lagbench.core.live.live_line import LiveAction, LiveCell, LiveLine, LivePhase, SloStanding
from lagbench.core.live.run_state import DRAINS, late_commit, state_of
from lagbench.core.live.slo_standings import Standings
from lagbench.core.measures.evidence.lag_readings import GAP_SECONDS, lag_of
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    ConsumerProgress,
    PodStopped,
    ProducerProgress,
    Record,
    SparkBatch,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMembers,
    GroupSample,
    LagSample,
    ReplicaSample,
)

HISTORY_SAMPLES = 1_800
"""Samples that the age looks back over: half an hour. An older message is at least that old."""
COMMIT_WINDOW_SECONDS = 10.0
"""Two automatic commits of the clients, which commit every 5 s: a shorter time would show 0 and
peaks by turns."""
FEWEST_COMMIT_SECONDS = 5.0


class Course:
    """The state of one group of the run."""

    def __init__(
        self,
        cell: LiveCell,
        slos: Slos,
        limits: PolicyLimits,
        *,
        reports_owners: bool = True,
        reports_work: bool = True,
        drain_seconds: float | None = None,
    ) -> None:
        """Start before the first record.

        Without ``reports_owners`` the pods do not report which partitions they own, without
        ``reports_work`` the group's commits say its rate. ``drain_seconds``: a wait for the drain
        lasts that long at most.
        """
        self._cell: LiveCell | None = cell  # None: a line has it
        self._lag, self._lag_at = _Lag(cell.partitions), 0
        self._commits = None if reports_work else _CommitRate()
        self._members = _Members()
        self._standings = Standings(slos, cell, limits, reports_owners=reports_owners)
        self._produced: deque[ProducerProgress] = deque(maxlen=2)
        self._produced_at, self._is_finished = 0, False
        self._pods: dict[str, tuple[int, ConsumerProgress]] = {}
        self._batch: tuple[int, SparkBatch] | None = None
        self._replicas: tuple[int, ReplicaSample] | None = None
        self._started_at: int | None = None
        self._task, self._spikes, self._planned_seconds = "", cell.spikes, cell.planned_seconds
        self._task_at, self._drain_seconds = 0, drain_seconds
        self.stream_planned_at: int | None = None  # None: it starts as soon as it can
        self._phases: list[LivePhase] = []
        self._actions: list[LiveAction] = []
        self._shown: dict[str, SloStanding] = {}

    def take(self, record: Record, now: int) -> None:
        """Update with a record that arrived at ``now``."""
        match record:
            case StreamStarted():
                self._started_at = record.stream_started_at
            case ProducerProgress():
                self._produced.append(record)
                self._produced_at = now
            case StreamFinished():
                self._is_finished = True
            case ConsumerProgress() | PodStopped() | SparkBatch():
                self._take_work(record, now)
            case LagSample():
                self._lag.take(record)
                self._lag_at = now
                if self._commits is not None:
                    self._commits.take(record)
                self._standings.take_lag(record.at, self._lag.total)
            case ReplicaSample():
                self._replicas = now, record
            case GroupSample() | GroupMembers():
                self._members.take(record)
            case ActionStarted() | ActionEnded():
                self._actions.append(_action(record))
        self._standings.take(record)

    def _take_work(self, record: ConsumerProgress | PodStopped | SparkBatch, now: int) -> None:
        if isinstance(record, ConsumerProgress):
            self._pods[record.source] = now, record
        elif isinstance(record, PodStopped):
            self._pods.pop(record.source, None)
        else:
            self._batch = now, record

    def take_phase(self, phase: LivePhase) -> None:
        """Add a phase of the run."""
        self._phases.append(phase)
        if phase.state == "started":
            self._task, self._task_at = phase.name, phase.at

    def line(self, now: int, *, verdict: str | None = None, is_last: bool = False) -> LiveLine:
        """Return the line of ``now``; what has happened is in it once."""
        lag, is_lag_known, replicas = self._lag, _is_fresh(self._lag_at, now), self._replicas
        before, self._shown = self._shown, self._standings.at(now)
        planned, produced = self._producer_rates(now)
        processed = self._processed(now)
        if self._commits is not None:
            processed = self._commits.per_second if is_lag_known else None
        second = _rounded(
            None if self._started_at is None else (now - self._started_at) / NANOSECONDS
        )
        line = LiveLine(
            at=now,
            run=self._cell,
            second=second,
            state=self._state(second, now),
            lag=lag.total if is_lag_known else None,
            lag_by_partition=lag.by_partition if is_lag_known else None,
            time_lag_seconds=_rounded(lag.time_lag_seconds) if is_lag_known else None,
            replicas=None
            if replicas is None or not _is_fresh(replicas[0], now)
            else (replicas[1].spec, replicas[1].ready),
            planned_per_second=_rounded(planned),
            produced_per_second=_rounded(produced),
            processed_per_second=_rounded(processed),
            assigned=self._members.changes(),
            phases=self._phases,
            actions=self._actions,
            standing={name: it for name, it in self._shown.items() if before.get(name) != it},
            verdict=verdict,
            is_last=is_last,
        )
        self._cell, self._phases, self._actions = None, [], []
        return line

    def _state(self, second: float | None, now: int) -> str:
        """Return what the run does, and what it waits for if its group commits late."""
        state = state_of(
            self._task, second=second, spikes=self._spikes, planned_seconds=self._planned_seconds
        )
        waits, planned_at = "", self.stream_planned_at
        if second is None and self._task == "inject_spike" and planned_at and planned_at > now:
            left = ceil((planned_at - now) / (10 * NANOSECONDS)) * 10
            waits = f"waits up to {left} s for a whole minute, which the cron windows need"
        if self._commits is not None and self._task in DRAINS and _is_fresh(self._lag_at, now):
            waits = late_commit(
                self._commits.idle_seconds,
                self._lag.total,
                waited_seconds=(now - self._task_at) / NANOSECONDS,
                most_seconds=self._drain_seconds,
            )
        return f"{state}: {waits}" if waits else state

    def _producer_rates(self, now: int) -> tuple[float | None, float | None]:
        """Return the planned rate and the rate that Kafka took, between two reports."""
        if self._is_finished:
            return 0.0, 0.0
        if len(self._produced) < 2 or not _is_fresh(self._produced_at, now):
            return None, None
        last, newest = self._produced
        seconds = max(newest.at - last.at, 1) / NANOSECONDS
        return (newest.planned - last.planned) / seconds, (newest.acked - last.acked) / seconds

    def _processed(self, now: int) -> float | None:
        """Return the rate of the pods that report, or that of Spark's last batch."""
        pods = [pod.consume_rate for at, pod in self._pods.values() if _is_fresh(at, now)]
        if pods or self._batch is None:
            return sum(pods) if pods else None
        at, batch = self._batch
        is_due = max(batch.trigger_seconds, batch.batch_seconds)
        return batch.processed_rows_per_second if _is_fresh(at, now, every=is_due) else None


class _Lag:
    """The newest lag. A partition without a commit has an unknown lag until it has one."""

    def __init__(self, first_partitions: int) -> None:
        """Take the partitions at the stream's start: those added later begin at offset 0."""
        self._first = first_partitions
        self._history = OffsetHistory(HISTORY_SAMPLES)
        self._at = 0
        self.by_partition: list[int | None] = []
        self.total: int | None = None  # None: that of a partition is unknown
        self.time_lag_seconds: float | None = None

    def take(self, sample: LagSample) -> None:
        """Take a sample that is newer than the last."""
        if not sample.partitions or sample.at <= self._at:
            return
        self._at = sample.at
        rows = sorted(sample.partitions, key=lambda row: row[0])
        numbers = np.array([number for number, _, _ in rows], dtype=np.int32)
        ends = np.array([end for _, end, _ in rows], dtype=np.int64)
        commits = np.array([NO_OFFSET if c is None else c for _, _, c in rows], dtype=np.int64)
        known_commits = np.where([c is None for _, _, c in rows], np.nan, commits)
        lags = lag_of(np.where(ends < 0, np.nan, ends), known_commits, numbers >= self._first)
        self.by_partition = [None if np.isnan(lag) else int(lag) for lag in lags]
        self.total, self.time_lag_seconds = None, None
        if not np.isnan(lags).any():
            self.total = int(lags.sum())
            # The age of the oldest message without a commit, 0 if there is none.
            self._history.append(SampledGroup(self._at, numbers, ends, commits))
            following = np.minimum(np.maximum(commits, 0), ends)
            found, _ = ages(self._history.times, self._history.end, following)
            waits = ends > following
            self.time_lag_seconds = float(found[waits].max()) / NANOSECONDS if waits.any() else 0.0


class _CommitRate:
    """Messages per second that a group which reports nothing has committed in the last 10 s."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, dict[int, int | None]]] = deque()
        self._moved_at = 0

    def take(self, sample: LagSample) -> None:
        """Take a sample of the offsets; one that is not newer than the last does not count."""
        if not sample.partitions or (self._samples and sample.at <= self._samples[-1][0]):
            return
        committed = {number: commit for number, _, commit in sample.partitions}
        if not self._samples or committed != self._samples[-1][1]:
            self._moved_at = sample.at
        self._samples.append((sample.at, committed))
        begin = sample.at - COMMIT_WINDOW_SECONDS * NANOSECONDS
        while len(self._samples) > 1 and self._samples[1][0] <= begin:
            self._samples.popleft()

    @property
    def idle_seconds(self) -> float:
        """Return the time since the last commit, up to the newest sample."""
        return (self._samples[-1][0] - self._moved_at) / NANOSECONDS if self._samples else 0.0

    @property
    def per_second(self) -> float | None:
        """Return the rate, never below 0; None: less than 5 s are known, or nothing is committed.

        A partition begins at 0, because the topic is the run's own.
        """
        if not self._samples:
            return None
        (first_at, first), (last_at, last) = self._samples[0], self._samples[-1]
        seconds = (last_at - first_at) / NANOSECONDS
        if seconds < FEWEST_COMMIT_SECONDS or all(commit is None for commit in last.values()):
            return None
        done = sum((commit or 0) - (first.get(number) or 0) for number, commit in last.items())
        return max(0.0, done / seconds)


class _Members:
    """The assignment by client id, which is the name of a pod of the run.

    Members with one client id are one. While a classic group rebalances the coordinator reports no
    assignment: a member keeps the last known one until the group is stable.
    """

    def __init__(self) -> None:
        self._is_stable = True
        self._held: dict[str, list[int]] = {}
        self._changes: dict[str, list[int] | None] = {}

    def take(self, record: GroupSample | GroupMembers) -> None:
        """Update with a sample of the group, or with a description of its members."""
        if isinstance(record, GroupSample):
            self._is_stable = record.state == "stable"
            return
        held: dict[str, set[int]] = {}
        for member in record.members:
            held.setdefault(member.client_id, set()).update(member.partitions)
        for name in self._held.keys() - held.keys():
            del self._held[name]
            self._changes[name] = None
        for name, partitions in held.items():
            is_told = bool(partitions) or self._is_stable
            if is_told and self._held.get(name) != sorted(partitions):
                self._held[name] = self._changes[name] = sorted(partitions)

    def changes(self) -> dict[str, list[int] | None] | None:
        """Return what changed since the last call: [] is idle, None has left; None: nothing."""
        changes, self._changes = self._changes, {}
        return changes or None


def _action(record: ActionStarted | ActionEnded) -> LiveAction:
    return LiveAction(
        at=record.at,
        number=record.number,
        action=record.action,
        state="started" if isinstance(record, ActionStarted) else "ended",
        targets=record.targets if isinstance(record, ActionStarted) else [],
        error=record.error if isinstance(record, ActionEnded) else "",
    )


def _is_fresh(at: int, now: int, *, every: float = 0.0) -> bool:
    """Return whether what arrived at ``at`` still says something of ``now``.

    ``every``: the seconds from one report to the next, if they are more than one.
    """
    return now - at <= (GAP_SECONDS + every) * NANOSECONDS


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
