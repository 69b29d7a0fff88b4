"""The kept verdicts are those of today's rules."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.unit.findings.kept import FINDINGS, files_of_runs

from lagbench.adapters.runs.experiment_folder import RUNS_FILE
from lagbench.catalog.catalog import load_scenario
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.verdict.verdict import Verdict, judge, with_second_group

KEEPERS = sorted(str(file.parent.relative_to(FINDINGS)) for file in FINDINGS.rglob(RUNS_FILE))


def parts(verdict: Verdict) -> dict[str, Any]:
    """Return what a verdict decides; the threshold is the limit with its unit."""
    slos = {slo.name: (slo.status, slo.value, slo.threshold) for slo in verdict.slos}
    return {"status": verdict.status, **slos}


def judged(files: Any) -> Verdict:
    """Return the verdict of today on a group's measures.

    The runs of own_consumer were kept without their scenario: the catalog has it.
    """
    if "scenario" in files:
        scenario = Scenario.model_validate(yaml.safe_load(files["scenario"]))
    else:
        scenario = load_scenario("own_consumer")
    return judge(Measures.model_validate(files["measures"]), scenario.slos)


@pytest.mark.parametrize("folder", KEEPERS)
def test_todays_rules_give_the_kept_verdicts(folder: str) -> None:
    """The SLOs of each group of each kept run, judged by its measures, are those of its verdict."""
    for run in files_of_runs(folder):
        found, kept = [judged(run.files)], [run.files["verdict"]]
        if run.second is not None:
            second = judged(run.second)
            found = [with_second_group(found[0], second), second]
            kept.append(run.second["verdict"])

        verdicts = [Verdict.model_validate(each) for each in kept]

        assert [parts(each) for each in found] == [parts(each) for each in verdicts], run.run_id
