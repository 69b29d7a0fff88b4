"""Turn the records of a run in progress into its live lines."""

from __future__ import annotations

from lagbench.core.live.commit_rate import CommitRate
from lagbench.core.live.lag import LiveLag
from lagbench.core.live.line import LiveAction, LiveCell, LiveLine, LivePhase, SloStanding
from lagbench.core.live.members import LiveMembers
from lagbench.core.live.rates import LiveRates, is_fresh
from lagbench.core.live.slos_so_far import SlosSoFar
from lagbench.core.measures import NANOSECONDS
from lagbench.core.policy import PolicyLimits
from lagbench.core.scenario import Slos
from lagbench.core.telemetry import (
    ActionEnded,
    ActionStarted,
    GroupMembers,
    GroupSample,
    LagSample,
    Record,
    ReplicaSample,
    StreamStarted,
)


class Course:
    """The state of one group of the run; ``now`` is unix nanoseconds of the follower's clock."""

    def __init__(
        self,
        cell: LiveCell,
        slos: Slos,
        limits: PolicyLimits,
        *,
        reports_owners: bool = True,
        reports_work: bool = True,
    ) -> None:
        """Start before the first record.

        :param reports_owners: whether the pods report which partitions they own.
        :param reports_work: whether they report their rate; else their commits say it.
        """
        self._cell: LiveCell | None = cell  # None: a line has it
        self._lag, self._lag_at = LiveLag(cell.partitions), 0
        self._rates, self._so_far = (
            LiveRates(),
            SlosSoFar(slos, cell, limits, reports_owners=reports_owners),
        )
        self._commits = None if reports_work else CommitRate()
        self._replicas: tuple[int, ReplicaSample] | None = None
        self._started_at: int | None = None
        self._members = LiveMembers()
        self._phases: list[LivePhase] = []
        self._actions: list[LiveAction] = []
        self._shown: dict[str, SloStanding] = {}

    def take(self, record: Record, now: int) -> None:
        """Update with a record that arrived at ``now``."""
        self._rates.take(record, now)
        match record:
            case StreamStarted():
                self._started_at = record.stream_started_at
                self._so_far.start(record.stream_started_at)
            case LagSample():
                self._lag.take(record)
                self._lag_at = now
                if self._commits is not None:
                    self._commits.take(record)
                self._so_far.take_lag(record.at, self._lag.total)
            case ReplicaSample():
                self._replicas = now, record
            case GroupSample() | GroupMembers():
                self._members.take(record)
            case ActionStarted() | ActionEnded():
                self._take_action(record)
            case _:
                pass
        self._so_far.take(record)

    def take_phase(self, phase: LivePhase) -> None:
        """Add a phase of the run."""
        self._phases.append(phase)

    def line(self, now: int, *, verdict: str | None = None, is_last: bool = False) -> LiveLine:
        """Return the line of ``now``; what has happened is in it once."""
        lag, is_lag_known = self._lag, is_fresh(self._lag_at, now)
        line = LiveLine(
            at=now,
            run=self._cell,
            second=self._second(now),
            lag=lag.total if is_lag_known else None,
            lag_by_partition=lag.by_partition if is_lag_known else None,
            time_lag_seconds=_rounded(lag.time_lag_seconds) if is_lag_known else None,
            replicas=self._replicas_at(now),
            planned_per_second=_rounded(self._rates.planned(now)),
            produced_per_second=_rounded(self._rates.produced(now)),
            processed_per_second=_rounded(self._processed(now)),
            assigned=self._members.changes(),
            phases=self._phases,
            actions=self._actions,
            standing=self._changed_standings(now),
            verdict=verdict,
            is_last=is_last,
        )
        self._cell, self._phases, self._actions = None, [], []
        return line

    def _processed(self, now: int) -> float | None:
        if self._commits is None:
            return self._rates.processed(now)
        return self._commits.per_second if is_fresh(self._lag_at, now) else None

    def _second(self, now: int) -> float | None:
        return (
            None if self._started_at is None else _rounded((now - self._started_at) / NANOSECONDS)
        )

    def _replicas_at(self, now: int) -> tuple[int, int] | None:
        if self._replicas is None or not is_fresh(self._replicas[0], now):
            return None
        return self._replicas[1].spec, self._replicas[1].ready

    def _changed_standings(self, now: int) -> dict[str, SloStanding]:
        before, self._shown = self._shown, self._so_far.standings(now)
        return {name: shown for name, shown in self._shown.items() if before.get(name) != shown}

    def _take_action(self, record: ActionStarted | ActionEnded) -> None:
        has_started = isinstance(record, ActionStarted)
        self._actions.append(
            LiveAction(
                at=record.at,
                number=record.number,
                action=record.action,
                state="started" if has_started else "ended",
                targets=record.targets if isinstance(record, ActionStarted) else [],
                error=record.error if isinstance(record, ActionEnded) else "",
            )
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
