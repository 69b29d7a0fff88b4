"""Follow an experiment: the runs that have ended, and the next one that is missing.

A run that did not measure what was planned (``Verdict.is_result``) is repeated once, at once. If
that one did not either, the run is a gap, and its pair is left out of the result. A run that is
undetermined only because a value lies too close to its limit is a result: a rule that repeats it
would choose runs by their values.
A run that ends without a verdict (stopped, or the bench failed) leaves no record: it is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.compare.experiment import PlannedRun, Schedule
from lagbench.core.kubernetes_values import NS_PER_SECOND

MOST_ATTEMPTS = 2

RunVerdict = Literal["pass", "fail", "undetermined"]


class RunRecord(BaseModel):
    """One run that has ended with a verdict; ``None`` where it is not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pair: int
    cell: str
    attempt: int  # from 1
    run_id: str
    verdict: RunVerdict
    reasons: tuple[str, ...]
    began_at: int  # unix ns: the run was planned
    ended_at: int  # unix ns: the run was recorded
    hpa_sync_at_seconds: float | None  # second of the stream of the HPA's first sync, as recorded
    is_result: bool | None = None  # of the verdict; None: recorded before this was kept

    @property
    def is_measured(self) -> bool:
        """Return whether the run is a result: pass and fail are, and values close to a limit."""
        return self.verdict != "undetermined" if self.is_result is None else self.is_result


class Execution(BaseModel):
    """One execution of an experiment: its start, its order, and the file that it plays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: str
    target: str  # embedded, or the cluster's name
    started_by: Literal["command", "dag"]
    started_at: int  # unix ns
    schedule: Schedule


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of an execution."""

    schedule: Schedule
    records: tuple[RunRecord, ...]

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """Return the runs without a result that may still get one, in their order."""
        return tuple(
            run
            for run in self.schedule.runs
            if self.measured(run) is None and len(self.attempts(run)) < MOST_ATTEMPTS
        )

    @property
    def gaps(self) -> tuple[PlannedRun, ...]:
        """Return the runs whose attempts were all undetermined."""
        return tuple(
            run
            for run in self.schedule.runs
            if self.measured(run) is None and len(self.attempts(run)) >= MOST_ATTEMPTS
        )

    @property
    def is_finished(self) -> bool:
        """Return whether no run is missing."""
        return not self.missing

    @property
    def done(self) -> int:
        """Return how many runs are measured, or are a gap."""
        return len(self.schedule.runs) - len(self.missing)

    def attempts(self, run: PlannedRun) -> tuple[RunRecord, ...]:
        """Return the records of a planned run, oldest first."""
        found = (r for r in self.records if (r.pair, r.cell) == (run.pair, run.cell))
        return tuple(sorted(found, key=lambda record: record.attempt))

    def expected_seconds(self, run: PlannedRun, planned_seconds: float) -> float:
        """Return how long a run takes: as planned, or as the longest of its cell did."""
        own = (r for r in self.records if r.cell == run.cell)
        return max([planned_seconds, *((r.ended_at - r.began_at) / NS_PER_SECOND for r in own)])

    def measured(self, run: PlannedRun) -> RunRecord | None:
        """Return the record that is the run's result; None: there is none yet."""
        return next((r for r in reversed(self.attempts(run)) if r.is_measured), None)
