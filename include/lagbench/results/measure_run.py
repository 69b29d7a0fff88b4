"""Measure and judge a run from its folder alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.checks import Check
from lagbench.core.measures.compute import compute_measures
from lagbench.core.measures.evidence.observed_group import observation_of
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.slo_limits import Slos, with_limits
from lagbench.core.verdict.verdict import Verdict, judge, with_checks, with_second_group
from lagbench.errors import LagbenchError, NotReady, WrongInput
from lagbench.results.cell_run import read_scenario
from lagbench.results.history import keep_earlier, update_history
from lagbench.results.read_run import read_evidence
from lagbench.results.run_prediction import predict_again
from lagbench.results.seals import judged_files, require_seals, unsealed_note

CHECKS_FILE = "checks.json"


@contextmanager
def as_lagbench_wrote(folder: RunFolder) -> Iterator[None]:
    """Raise NotReady for whatever a file or table that lagbench did not write causes."""
    try:
        yield
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as broken:
        problem = f"{type(broken).__name__}: {broken}"
        raise NotReady(
            f"run {folder.reference}: a file or table was not written by lagbench ({problem[:200]})"
        ) from broken


def measure_run(folder: RunFolder) -> Measures:
    """Compute the measures of a run and write measures.json; repeating it changes nothing.

    :raises NotReady: the run has not come far enough to be measured.
    :raises WrongInput: an input was changed after the stream had begun.
    """
    require_seals(folder)
    with as_lagbench_wrote(folder):
        run = read_evidence(folder)
        measures = compute_measures(folder.reference, run)
    if note := unsealed_note(run.manifest):
        notes = (*measures.validity.notes, note)
        validity = measures.validity.model_copy(update={"notes": notes})
        measures = measures.model_copy(update={"validity": validity})
    folder.write_json(folder.measures, measures.model_dump(mode="json"))
    predict_again(folder, run)
    return measures


def judge_run(folder: RunFolder, *, reads_checks: bool = False) -> Verdict:
    """Judge measures.json (computed first if it is missing) by the scenario's SLOs.

    Writes verdict.json, and the run's line in the history of its runs folder. With a second group
    its verdict is written first, and is part of the run's.

    :param reads_checks: a run whose tasks left no result of a check in checks.json does not pass.
    """
    if folder.measures.exists():
        measures = folder.read_model(folder.measures, Measures)
    else:
        measures = measure_run(folder)
    verdict = judge(measures, read_scenario(folder).slos)
    if reads_checks:
        verdict = with_checks(verdict, read_checks(folder))
    if folder.second is not None:
        second = _judged_second(folder.second, reads_checks=reads_checks)
        verdict = with_second_group(verdict, second)
    return _write_verdict(folder, verdict)


def what_if(folder: RunFolder, limits: Mapping[str, Any]) -> Verdict:
    """Judge a run by other limits into what-if.json; its verdict and its files stay as they are.

    :param limits: by the name of the SLO.
    :raises WrongInput: there is no such SLO, or the value is none for it.
    """
    require_seals(folder)
    with as_lagbench_wrote(folder):
        run = read_evidence(folder)
    slos = run.scenario.slos.model_dump()
    try:
        asked = Slos.model_validate(with_limits(slos, limits))
    except ValidationError as broken:
        first = broken.errors()[0]
        name, value, where = first["loc"][0], first["input"], f"run {folder.reference}"
        allowed = first["msg"] if name in slos else ", ".join(slos)
        raise WrongInput(
            where=where, field=f"slos.{name}", value=value, allowed=allowed
        ) from broken
    verdict = judge(compute_measures(folder.reference, run), asked)
    content = {"set": dict(limits), "verdict": verdict.model_dump(mode="json")}
    folder.write_json(folder.path / "what-if.json", content)
    return verdict


def record_check(folder: RunFolder, name: str, check: Check) -> dict[str, Any]:
    """Merge a check's result into checks.json and return it; one runs after the other."""
    result = {"holds": check.holds, **check.numbers, "reasons": list(check.reasons)}
    folder.write_json(CHECKS_FILE, {**read_checks(folder), name: result})
    return result


def read_checks(folder: RunFolder) -> dict[str, Any]:
    """Return the results of the checks by the names of their tasks."""
    is_there = (folder.path / CHECKS_FILE).exists()
    return dict(folder.read_json(CHECKS_FILE)) if is_there else {}


def _judged_second(folder: RunFolder, *, reads_checks: bool = False) -> Verdict:
    """Judge the second group; one that cannot be measured leaves the run's verdict open."""
    try:
        return judge_run(folder, reads_checks=reads_checks)
    except LagbenchError as problem:
        return _undetermined(folder, problem)


def rejudge_run(folder: RunFolder) -> Verdict:
    """Measure and judge a run again, whatever was measured before.

    A folder that cannot be measured is undetermined: the verdict gives the reason; a run that ended
    before its accounting has no verdict then, and no line in the history. No earlier verdict, and
    no page or junit.xml of one, stays in the folder of either group.

    :raises WrongInput: an input was changed after the stream had begun; nothing is touched.
    :raises LagbenchError: it cannot be measured.
    """
    for group in folder.groups:
        require_seals(group)
    for group in folder.groups:
        group.measures.unlink(missing_ok=True)
    is_early = ended_early(folder)
    try:
        if is_early and not folder.has_landed():
            raise NotReady(f"run {folder.reference}: its tables are not landed")
        measure_run(folder)
        return judge_run(folder)
    except LagbenchError as problem:
        if is_early:
            folder.verdict.unlink(missing_ok=True)
            update_history(folder)
            raise
        if folder.second is not None:
            _drop_pages(folder.second)
            _judged_second(folder.second)
        _undetermined(folder, problem)
        raise


def ended_early(folder: RunFolder) -> bool:
    """Return whether a rehearsal ended before its accounting: it may not be measurable yet."""
    manifest = folder.read_json(folder.manifest) if folder.manifest.exists() else {}
    return not folder.accounting.exists() and bool(manifest) and observation_of(manifest) is None


def _undetermined(folder: RunFolder, problem: LagbenchError) -> Verdict:
    """Write and return the verdict on a folder that cannot be measured; it has no page."""
    _drop_pages(folder)
    why = (str(problem),)
    verdict = Verdict(run_id=folder.reference, status="undetermined", reasons=why, slos=())
    return _write_verdict(folder, verdict)


def _drop_pages(folder: RunFolder) -> None:
    """Delete what shows an earlier verdict."""
    for page in (folder.report, folder.junit):
        page.unlink(missing_ok=True)


def _write_verdict(folder: RunFolder, verdict: Verdict) -> Verdict:
    """Write verdict.json, and the run's line in the history; a second group has no own line."""
    written = verdict.model_copy(update={"judged": judged_files(folder)})
    folder.write_json(folder.verdict, written.model_dump(mode="json"))
    if not folder.is_second:
        update_history(folder)
        keep_earlier(folder)
    return written
