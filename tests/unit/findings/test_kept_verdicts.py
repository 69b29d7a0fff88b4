"""The kept verdicts are those of today's rules."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.unit.findings.kept import FINDINGS, files_of_runs

from lagbench.adapters.runs.experiment_folder import RUNS_FILE
from lagbench.adapters.runs.kept_run import KeptRun
from lagbench.core.measures import Measures
from lagbench.core.scenario import Scenario
from lagbench.core.verdict import Verdict, judge, with_second_group

KEEPERS = sorted(str(file.parent.relative_to(FINDINGS)) for file in FINDINGS.rglob(RUNS_FILE))
NO_SCENARIO = "its scenario, which has the limits, was not kept"
NOT_REPRODUCED = {
    "own-consumer-20261124-152350-6c3e": NO_SCENARIO,
    "own-consumer-20261124-153426-b821": NO_SCENARIO,
    "own-consumer-20261124-154510-5ce5": NO_SCENARIO,
    "own-consumer-20261124-155455-3cdf": NO_SCENARIO,
    "own-consumer-20261125-175007-a42c": NO_SCENARIO,
    "own-consumer-20261125-175349-c0ed": NO_SCENARIO,
    "own-consumer-20261125-175808-f5b6": NO_SCENARIO,
}
"""Run -> why the rules of today do not give its kept verdict."""


def parts(verdict: Verdict) -> dict[str, Any]:
    """Return what a verdict decides; the threshold is the limit with its unit."""
    slos = {slo.name: (slo.status, slo.value, slo.threshold) for slo in verdict.slos}
    return {"status": verdict.status, **slos}


def judged(files: Any) -> Verdict:
    """Return the verdict of today on a group's measures."""
    scenario = Scenario.model_validate(yaml.safe_load(files["scenario"]))
    return judge(Measures.model_validate(files["measures"]), scenario.slos)


def is_reproduced(run: KeptRun) -> bool:
    """Return whether today's rules give the kept verdict of each group."""
    if "scenario" not in run.files:
        return False
    found, kept = [judged(run.files)], [run.files["verdict"]]
    if run.second is not None:
        second = judged(run.second)
        found = [with_second_group(found[0], second), second]
        kept.append(run.second["verdict"])
    return [parts(each) for each in found] == [parts(Verdict.model_validate(each)) for each in kept]


@pytest.mark.parametrize("folder", KEEPERS)
def test_todays_rules_give_the_kept_verdicts(folder: str) -> None:
    """The SLOs of each kept run, judged by its measures, are those of its verdict or are named."""
    runs = files_of_runs(folder)
    reproduced = {run.run_id for run in runs if is_reproduced(run)}
    assert {run.run_id for run in runs} - reproduced == {
        run.run_id for run in runs if run.run_id in NOT_REPRODUCED
    }


def test_each_run_that_is_not_reproduced_is_kept() -> None:
    """No name in the table is that of a run which is gone."""
    kept = {run.run_id for folder in KEEPERS for run in files_of_runs(folder)}
    assert NOT_REPRODUCED.keys() <= kept
