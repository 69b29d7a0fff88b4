"""Gate the nightly rehearsal: compare it with its cell's baseline and with the last night.

The comparison with the last night finds sudden changes; the one with the baseline finds gradual
changes. A regression stays red until it is accepted as the baseline, because it is never a
reference. Only rehearsals pass through the gate, so only they have its record, ``comparison.json``,
and can be references.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import Literal

from lagbench.adapters.runs.run_folder import RunFolder, RunSummary, list_runs, runs_root
from lagbench.core.cluster.lease import longest_run_seconds
from lagbench.core.compare.compare import Comparison, compare_measures, status_of
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.model import NANOSECONDS, MeasureModel
from lagbench.core.verdict.in_words import headline
from lagbench.core.verdict.verdict import Verdict
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.results.cell_run import read_scenario
from lagbench.results.compared_runs import (
    BASELINE_FILE,
    Baseline,
    cell_of,
    pin_baseline,
    pinned_baselines,
)
from lagbench.results.history import change_notes

COMPARISON_FILE = "comparison.json"
GateStatus = Literal["baseline", "within", "regressed", "undetermined"]
PASSED = "pass"


class GateRecord(MeasureModel):
    """The gate's result for one night; ``reasons`` decided the status.

    ``notes`` name change points in the cell's history, which decide nothing. ``last_night`` is None
    when there is none, or when it is the baseline itself.
    """

    run_id: str
    cell: str
    status: GateStatus
    reasons: tuple[str, ...]
    notes: tuple[str, ...] = ()
    baseline: Comparison | None = None
    last_night: Comparison | None = None

    @property
    def comparisons(self) -> tuple[tuple[str, Comparison], ...]:
        """The comparisons of the night, by the name of the reference."""
        named = (("the baseline", self.baseline), ("the last night", self.last_night))
        return tuple((name, found) for name, found in named if found is not None)


def judge_night(folder: RunFolder, *, now: int) -> GateRecord:
    """Compare a measured rehearsal, and write comparison.json into its folder.

    The first one that passes becomes the baseline of its cell, from ``now`` (unix ns) on.

    :raises NotReady: the run has no measures, or its folder does not show its cell.
    """
    root, cell = folder.path.parent, cell_of(folder)
    if cell is None:
        raise NotReady(
            f"run {folder.run_id} has no readable cell: scenario.yaml, or the manifest's field "
            "cell, is missing or was changed"
        )
    notes = change_notes(root, cell)
    record = _judged(folder, cell, root, now).model_copy(update={"notes": notes})
    folder.write_json(COMPARISON_FILE, record.model_dump(mode="json"))
    return record


def accept(
    folder: RunFolder, *, now: int, by: str | None = None
) -> tuple[Baseline, Baseline | None]:
    """Make a rehearsal the baseline of its cell; return it and the previous one, or None.

    :param by: the user who accepts it; None: the command line.

    :raises WrongInput: the run is not a rehearsal that the gate has seen, or did not pass.
    """
    cell, verdict, allowed = cell_of(folder), folder.summary().verdict, ""
    if cell is None or read_record(folder) is None:
        allowed = "a run of daily_spike_rehearsal that the gate has compared"
    elif verdict != PASSED:
        allowed = f"a run whose verdict is pass (it is {verdict})"
    if cell is None or allowed:
        raise WrongInput(where="baseline", field="run", value=folder.run_id, allowed=allowed)
    before = pinned_baselines(folder.path.parent).get(cell)
    return pin_baseline(folder, cell=cell, reason="accepted", now=now, by=by), before


def read_record(folder: RunFolder) -> GateRecord | None:
    """Return the gate's record; None: the run is not a rehearsal, or of an earlier lagbench."""
    with suppress(LagbenchError, ValueError):
        return folder.read_model(COMPARISON_FILE, GateRecord)
    return None


def told_verdict(folder: RunFolder) -> str:
    """Return verdict and key figures of a run, and on a night what the gate says of it."""
    text = "no verdict"
    if folder.verdict.is_file():
        text = headline(folder.read_model(folder.verdict, Verdict))
    if (folder.path / COMPARISON_FILE).is_file():
        gate = folder.read_json(COMPARISON_FILE)
        text = f"{text}; gate: {'; '.join([gate['status'], *gate['reasons'][:1]])}"
    return text


def references(root: Path) -> dict[str, str]:
    """Return each cell's newest rehearsal that may be a reference: cell -> run id."""
    passed = [one.run_id for one in list_runs(root) if one.verdict == PASSED]
    return {cell: one for one in passed if (cell := _cell_as_reference(RunFolder(root / one)))}


def _judged(folder: RunFolder, cell: str, root: Path, now: int) -> GateRecord:
    pinned, last = pinned_baselines(root).get(cell), _last_night(folder, cell, root)
    passed = folder.summary().verdict == PASSED

    def record(status: GateStatus, *reasons: str, **found: Comparison | None) -> GateRecord:
        return GateRecord(run_id=folder.run_id, cell=cell, status=status, reasons=reasons, **found)

    if pinned is None and last is None and not passed:
        return record(
            "undetermined", "its verdict is not pass, and there is no baseline to compare it with"
        )
    measures = folder.read_model(folder.measures, Measures)
    if pinned is not None and pinned.run_id == folder.run_id:
        return record("baseline", "this run is the baseline of its cell")
    if pinned is None and last is None:
        pin_baseline(folder, cell=cell, reason="first pass", now=now)
        first = "the first rehearsal of this cell that passed: now its baseline"
        return record("baseline", first)
    found: dict[str, Comparison] = {}
    if pinned is not None:
        found["baseline"] = _against(RunFolder(root / pinned.run_id), measures)
    if last is not None and (pinned is None or last.run_id != pinned.run_id):
        found["last_night"] = _against(last, measures)
    status = status_of([comparison.status for comparison in found.values()])
    reasons = [
        f"against {name} {comparison.reference_run_id}: {reason}"
        for name, comparison in record(status, **found).comparisons
        if comparison.status == status
        for reason in comparison.reasons
    ]
    if pinned is None and passed and status == "within":
        # The baseline's folder was deleted: a run that is within the last night replaces it.
        pin_baseline(folder, cell=cell, reason="first pass", now=now)
    return record(status, *reasons, **found)


def _against(reference: RunFolder, measures: Measures) -> Comparison:
    return compare_measures(measures, reference.read_model(reference.measures, Measures))


def _last_night(folder: RunFolder, cell: str, root: Path) -> RunFolder | None:
    """Return the newest earlier rehearsal of the cell that may be a reference."""
    own = folder.summary()
    for summary in reversed(list_runs(root)):
        is_earlier = (summary.created_at or 0) <= (own.created_at or 0)
        if summary.run_id == own.run_id or not is_earlier or summary.verdict != PASSED:
            continue
        found = RunFolder(root / summary.run_id)
        if _cell_as_reference(found) == cell:
            return found
    return None


def _cell_as_reference(folder: RunFolder) -> str | None:
    """Return the cell of a rehearsal that was no regression, or was accepted; else None."""
    record = read_record(folder)
    if record is None:
        return None
    is_accepted = (folder.path / BASELINE_FILE).exists()
    if record.status not in ("baseline", "within") and not is_accepted:
        return None
    return cell_of(folder)


DAY_NS = 86_400 * NANOSECONDS


def tidy_run_folders(
    *, keep_days: int, including_failed: bool, root: Path | None = None, now: int | None = None
) -> list[str]:
    """Delete runs older than ``keep_days`` days and return their ids.

    Kept: every run whose verdict is not pass (unless ``including_failed``), the baseline of
    each cell and its newest rehearsal that was no regression (the next one is compared with both),
    a run that may still be in progress, and any folder without a date in its manifest, because
    it may not be ours.
    """
    root = root or runs_root()
    now = time.time_ns() if now is None else now
    oldest = now - keep_days * DAY_NS
    runs = list_runs(root)
    wanted_by_gate = {*references(root).values()}
    wanted_by_gate |= {baseline.run_id for baseline in pinned_baselines(root).values()}
    deleted = []
    for run in runs:
        if run.created_at is None or run.created_at >= oldest:
            continue
        is_wanted = run.verdict != PASSED and not including_failed
        is_kept = is_wanted or run.run_id in wanted_by_gate
        if not is_kept and not _may_be_in_progress(root, run, now):
            shutil.rmtree(root / run.run_id)
            deleted.append(run.run_id)
    return deleted


def _may_be_in_progress(root: Path, run: RunSummary, now: int) -> bool:
    """Return whether a run can still write to its folder: no report, and not past the limit.

    The limit is the longest duration of its scenario, or a day if that cannot be read.
    """
    folder = RunFolder(root / run.run_id)
    if run.created_at is None or (run.verdict is not None and folder.report.exists()):
        return False
    longest_ns = DAY_NS
    with suppress(LagbenchError):
        longest_ns = longest_run_seconds(read_scenario(folder)) * NANOSECONDS
    return now < run.created_at + longest_ns
