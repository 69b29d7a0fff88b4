"""Measure and judge a run from its folder alone."""

from __future__ import annotations

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures import Measures, compute_measures
from lagbench.core.verdict import Verdict, judge, with_second_group
from lagbench.errors import LagbenchError, NotReady
from lagbench.results.history import append_history
from lagbench.results.prediction import predict_again
from lagbench.results.read_run import read_evidence, read_scenario


def measure_run(folder: RunFolder) -> Measures:
    """Compute the measures of a run and write measures.json; repeating it changes nothing.

    :raises NotReady: the run has not come far enough to be measured.
    """
    try:
        run = read_evidence(folder)
        measures = compute_measures(folder.reference, run)
    except (AttributeError, KeyError, TypeError, ValueError) as broken:
        problem = f"{type(broken).__name__}: {broken}"
        raise NotReady(
            f"run {folder.reference}: a file or table was not written by lagbench ({problem[:200]})"
        ) from broken
    folder.write_json(folder.measures, measures.model_dump(mode="json"))
    predict_again(folder, run)
    return measures


def judge_run(folder: RunFolder) -> Verdict:
    """Judge measures.json (computed first if it is missing) by the scenario's SLOs.

    Writes verdict.json, and the run's line in the history of its runs folder. With a second group
    its verdict is written first, and is part of the run's.
    """
    if folder.measures.exists():
        measures = Measures.model_validate(folder.read_json(folder.measures))
    else:
        measures = measure_run(folder)
    verdict = judge(measures, read_scenario(folder).slos)
    if folder.second is not None:
        verdict = with_second_group(verdict, _judged_second(folder.second))
    _write_verdict(folder, verdict)
    return verdict


def _judged_second(folder: RunFolder) -> Verdict:
    """Judge the second group; one that cannot be measured leaves the run's verdict open."""
    try:
        return judge_run(folder)
    except LagbenchError as problem:
        return _undetermined(folder, problem)


def rejudge_run(folder: RunFolder) -> Verdict:
    """Measure and judge a run again, whatever was measured before.

    A folder that cannot be measured is undetermined: the verdict gives the reason. No earlier
    verdict, and no page or junit.xml of one, stays in the folder of either group.

    :raises LagbenchError: it cannot be measured.
    """
    for group in folder.groups:
        group.measures.unlink(missing_ok=True)
    try:
        measure_run(folder)
        return judge_run(folder)
    except LagbenchError as problem:
        if folder.second is not None:
            _drop_pages(folder.second)
            _judged_second(folder.second)
        _undetermined(folder, problem)
        raise


def _undetermined(folder: RunFolder, problem: LagbenchError) -> Verdict:
    """Write and return the verdict on a folder that cannot be measured; it has no page."""
    _drop_pages(folder)
    verdict = Verdict(
        run_id=folder.reference, status="undetermined", reasons=(str(problem),), slos=()
    )
    _write_verdict(folder, verdict)
    return verdict


def _drop_pages(folder: RunFolder) -> None:
    """Delete what shows an earlier verdict."""
    for page in (folder.report, folder.junit):
        page.unlink(missing_ok=True)


def _write_verdict(folder: RunFolder, verdict: Verdict) -> None:
    """Write verdict.json, and the run's line in the history; a second group has no own line."""
    folder.write_json(folder.verdict, verdict.model_dump(mode="json"))
    if not folder.is_second:
        append_history(folder)
