"""A stopped experiment goes on with the next missing run."""

from __future__ import annotations

from tests.fakes.experiments import experiment

from lagbench.core.experiment.progress import Progress, RunRecord, RunVerdict
from lagbench.core.experiment.schedule import PlannedRun, draw_schedule

SCHEDULE = draw_schedule(experiment())
FIRST, SECOND = SCHEDULE.runs[:2]


def record(run: PlannedRun, verdict: RunVerdict, attempt: int = 1) -> RunRecord:
    """Return the record of a run."""
    return RunRecord(
        pair=run.pair,
        cell=run.cell,
        attempt=attempt,
        run_id=f"r{attempt}",
        verdict=verdict,
        reasons=(),
        began_at=1,
        ended_at=2,
        hpa_sync_at_seconds=None,
    )


def test_an_experiment_without_records_begins_with_the_first_run() -> None:
    """All runs are missing, in the drawn order."""
    progress = Progress(SCHEDULE, ())

    assert progress.missing == SCHEDULE.runs
    assert (progress.done, progress.is_finished) == (0, False)


def test_a_fail_is_a_result() -> None:
    """A cell that is meant to fail is measured as well as one that passes."""
    progress = Progress(SCHEDULE, (record(FIRST, "fail"), record(SECOND, "pass")))

    assert progress.missing == SCHEDULE.runs[2:]
    assert progress.done == 2
    assert progress.gaps == ()


def test_an_undetermined_run_is_repeated_once_and_at_once() -> None:
    """The second attempt counts; if it is undetermined too, the run is a gap."""
    once = Progress(SCHEDULE, (record(FIRST, "undetermined"),))
    repeated = Progress(SCHEDULE, (*once.records, record(FIRST, "pass", attempt=2)))
    gap = Progress(SCHEDULE, (*once.records, record(FIRST, "undetermined", attempt=2)))

    assert once.missing[0] == FIRST
    assert repeated.measured(FIRST) == repeated.records[1]
    assert repeated.missing[0] == gap.missing[0] == SECOND
    assert (repeated.gaps, gap.gaps) == ((), (FIRST,))


def test_an_undetermined_run_that_measured_its_values_is_a_result() -> None:
    """A run is not chosen by its values: one that lies too close to a limit is not repeated."""
    close = record(FIRST, "undetermined").model_copy(update={"is_result": True})
    invalid = record(SECOND, "fail").model_copy(update={"is_result": False})
    progress = Progress(SCHEDULE, (close, invalid))

    assert progress.measured(FIRST) == close
    assert progress.missing[0] == SECOND


def test_all_runs_with_a_result_or_a_gap_finish_it() -> None:
    """The order of the records makes no difference."""
    records = [record(run, "pass") for run in reversed(SCHEDULE.runs[1:])]
    gap = [record(FIRST, "undetermined", 2), record(FIRST, "undetermined", 1)]

    assert Progress(SCHEDULE, (*records, *gap)).is_finished
    assert not Progress(SCHEDULE, tuple(records)).is_finished


def test_a_run_takes_as_long_as_the_longest_of_its_cell() -> None:
    """Never less than planned: a first run says nothing of a slow machine."""
    took = record(FIRST, "pass").model_copy(update={"ended_at": 1 + 300 * 10**9})
    progress = Progress(SCHEDULE, (took, record(SECOND, "pass")))

    assert progress.expected_seconds(FIRST, 200) == 300
    assert progress.expected_seconds(SECOND, 200) == 200
