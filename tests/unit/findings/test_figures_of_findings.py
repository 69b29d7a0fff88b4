"""The figures that pages of findings quote are those of the kept runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.adapters.runs.experiment_folder import RUNS_FILE, ExperimentFolder, KeptRun
from lagbench.catalog.catalog import load_scenario
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.verdict.verdict import Verdict, judge, with_second_group

ROOT = Path(__file__).resolve().parents[3]
FINDINGS = ROOT / "docs" / "findings"


def kept_runs(experiment: str) -> Iterator[tuple[dict[str, Any], Measures]]:
    """Yield the record and the measures of each kept run, also of a repeated one."""
    runs = files_of_runs(experiment)
    assert runs, f"no run of {experiment} is kept"
    for run in runs:
        yield dict(run.record or {}), Measures.model_validate(run.files["measures"])


def files_of_runs(experiment: str) -> list[KeptRun]:
    """Return each kept run whole."""
    return ExperimentFolder(FINDINGS / experiment).runs()


def page(experiment: str) -> str:
    """Return a page of findings with each blank and line break as one blank."""
    return " ".join((FINDINGS / experiment / "README.md").read_text().split())


def is_cell(record: dict[str, Any], cell: str) -> bool:
    """Return whether a kept run is one of a cell."""
    return record["cell"] == cell


def test_two_runs_of_one_cell_differ_by_no_more_than_the_overview_says() -> None:
    """No pair of aa_quick_spike differs by more than 2.0 s in reaction or drain."""
    runs = json.loads((FINDINGS / "aa_quick_spike" / "result.json").read_text())["runs"]
    widest = {
        name: max(
            abs(first["values"][name] - second["values"][name])
            for first in runs
            for second in runs
            if first["pair"] == second["pair"]
        )
        for name in ("reaction_seconds", "drain_seconds")
    }

    most = max(widest.values())
    overview = " ".join((FINDINGS / "README.md").read_text().split())
    assert f"differ by at most {most:.1f} s in reaction and in drain" in overview


def test_the_five_lines_of_the_readme_are_those_of_the_kept_runs() -> None:
    """What README.md says that lagbench found out is computed from the runs behind its links."""
    documented = [
        Measures.model_validate(run.files["measures"])
        for run in files_of_runs("own_consumer")
        if f"| as documented | `{run.run_id}` |" in page("own_consumer")
    ]
    flips = [measures.scaling.flips or 0 for measures in documented]
    repeated = max(measures.accounting.duplicated or 0 for measures in documented)
    lost = [
        m.accounting.lost for record, m in kept_runs("scale_down_loss") if is_cell(record, "auto")
    ]
    again = [
        m.accounting.duplicated for record, m in kept_runs("live_group") if is_cell(record, "back")
    ]
    java = [
        m.accounting.duplicated
        for record, m in kept_runs("live_group_java")
        if is_cell(record, "documented")
    ]
    static = [
        m.scaling.self_made_flips or 0
        for record, m in kept_runs("step_dip_static")
        if record["cell"] in ("kip_848_static", "range_static")
    ]
    ((_, full_size),) = kept_runs("full-size")
    peak = full_size.lag.peak_records

    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"{min(flips)} to {max(flips)} flips and up to {repeated:,} messages done twice" in readme
    )
    assert f"{min(static)} to {max(static)} self-made flips with KIP-848 and with range" in readme
    assert f"at scale-up**: {lost[0]:,} and {lost[1]:,}. A graceful" in readme
    assert f"when partitions move**, {java[0]} and {java[1]}; with a commit on revoke" in readme
    assert f"the drain of {(peak or 0) / 1e6:.1f} million messages" in readme
    assert f"repeats messages**, {again[0]} and {again[1]}. The way there" in readme


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
