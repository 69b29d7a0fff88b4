"""The figures that pages of findings quote are those of the kept runs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

import pytest
import yaml
from tests import step_dips
from tests.unit.findings.kept import (
    FINDINGS,
    ROOT,
    files_of_runs,
    is_cell,
    kept_runs,
    page,
)

from lagbench.adapters.runs.experiment_folder import RUNS_FILE
from lagbench.catalog.catalog import load_scenario
from lagbench.core.compare.compare import Bound
from lagbench.core.compare.pairs import Pair, compare_pairs
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.rebalance_episodes import StepCosts
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.verdict.verdict import Verdict, judge, with_second_group

BOUND_POINTS = 10.0


def dip_pairs(attempt_of_pair_4: int) -> list[Pair]:
    """Return the pairs of rebalance_dip, with the chosen run of range in pair 4."""
    chosen: dict[tuple[int, str], Measures] = {}
    for record, measures in kept_runs("rebalance_dip"):
        pair, cell = record["pair"], record["cell"]
        is_repeated = (pair, cell) == (4, "range")
        if is_repeated and record["attempt"] != attempt_of_pair_4:
            continue
        summary = measures.rebalances
        steps = {
            "scale_ups": StepCosts.of(e for e in summary.episodes if e.trigger == "scale_up"),
            "scale_downs": StepCosts.of(e for e in summary.episodes if e.trigger == "scale_down"),
        }
        chosen[pair, cell] = measures.model_copy(
            update={"rebalances": summary.model_copy(update=steps)}
        )
    return [Pair(chosen[pair, "cooperative"], chosen[pair, "range"]) for pair in range(1, 7)]


@pytest.mark.parametrize("attempt", [1, 2])
def test_the_verdict_on_the_dip_is_quoted_with_either_run_of_pair_4(attempt: int) -> None:
    """The difference in the deepest dip is undetermined, whichever run pair 4 has."""
    bounds = [Bound("rebalance_dip_percent", absolute=BOUND_POINTS)]
    found = compare_pairs(dip_pairs(attempt), bounds, looks=(6,))
    dip = next(each for each in found if each.name == "rebalance_dip_percent")

    quoted = f"{dip.change(dip.difference)} points ({dip.change(dip.low)} to {dip.change(dip.high)}"
    assert f"{quoted}) | {dip.p:.3f} | {dip.verdict} |" in page("rebalance_dip")


@pytest.mark.parametrize("name", ["scale_up_dip_percent", "scale_down_dip_percent"])
def test_the_exploratory_dips_are_those_of_the_kept_episodes(name: str) -> None:
    """The dips of steps up and of steps down are computed from the episodes of the kept runs."""
    bounds = [Bound(name, absolute=BOUND_POINTS)]
    first_run, recorded = (
        next(
            each
            for each in compare_pairs(dip_pairs(attempt), bounds, looks=(6,))
            if each.name == name
        )
        for attempt in (1, 2)
    )

    texts = [
        f"{each.change(each.difference)} points ({each.change(each.low)} to "
        f"{each.change(each.high)})"
        for each in (recorded, first_run)
    ]
    means = f"{recorded.mean_first:.1f} % | {recorded.mean_second:.1f} %"
    assert f"| {means} | {texts[0]} | {recorded.p:.2g} | {texts[1]} |" in page("rebalance_dip")


def test_the_pod_minutes_of_spark_are_quoted_for_the_window_and_for_the_whole() -> None:
    """KEDA's saving on Spark is quoted in the planned window, and with the scale-down after it."""
    runs: dict[str, list[tuple[float, float]]] = {}
    for record, measures in kept_runs("spark_consumer"):
        scaling = measures.scaling
        assert scaling.pod_minutes is not None
        assert scaling.pod_minutes_after is not None
        runs.setdefault(record["cell"], []).append((scaling.pod_minutes, scaling.pod_minutes_after))
    window = {cell: fmean(inside for inside, _ in of_cell) for cell, of_cell in runs.items()}
    after = {cell: fmean(later for _, later in of_cell) for cell, of_cell in runs.items()}
    whole = {cell: window[cell] + after[cell] for cell in runs}

    shown = page("spark_consumer")
    for cell in runs:
        assert f"| {window[cell]:.1f} | {after[cell]:.1f} |" in shown
    saved, saved_whole = (found["fixed"] - found["keda"] for found in (window, whole))
    assert f"saves {saved:.1f} of {window['fixed']:.1f} worker-minutes" in shown
    assert f"of {whole['fixed']:.1f} worker-minutes in all it saves {saved_whole:.1f}" in shown
    overview = (FINDINGS / "README.md").read_text()
    assert f"saves {saved_whole:.1f} of {whole['fixed']:.1f} worker-minutes" in overview


def test_the_rows_of_own_consumer_have_the_verdicts_and_flips_of_their_runs() -> None:
    """Each row of the own consumer's page has the verdict and the flips of its kept run."""
    shown = page("own_consumer")
    runs = files_of_runs("own_consumer")
    for run in runs:
        verdict = run.files["verdict"]["status"]
        measures = Measures.model_validate(run.files["measures"])
        load = measures.load
        assert load.last_spike_ended_at is not None
        assert load.first_spike_started_at is not None
        spike = (load.last_spike_ended_at - load.first_spike_started_at) / 1e9
        row = f"`{run.run_id}` | {verdict} | {spike:.0f} s | {measures.scaling.flips} |"
        assert row in shown
        repeated, distinct = measures.accounting.duplicated, measures.accounting.processed_distinct
        assert f"{repeated:,} of {distinct:,} | {measures.accounting.lost} |" in shown

    assert len(runs) == 7


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


def test_the_dips_of_all_kept_steps_are_counted_as_the_pages_say() -> None:
    """Each row of step_dip_causes, and what the overview says of all steps, is of kept runs."""
    steps = list(step_dips.kept_steps())
    runs, missed = ({s.run_id for s in steps if which(s)} for which in (bool, step_dips.is_above))
    above = sum(map(step_dips.is_above, steps))
    sure = sum(step.holds is False for step in steps)

    lines = (FINDINGS / "step_dip_causes.md").read_text().splitlines()
    assert set(step_dips.table(steps)) <= set(lines)
    many, single = step_dips.of_joins(steps).split("; the ")
    assert f"dipped {many}." in "\n".join(lines)
    assert f"the {single}," in "\n".join(lines)
    overview = " ".join((FINDINGS / "README.md").read_text().split())
    assert f"**{above} of {len(steps)} scale steps dipped more" in overview
    assert f"in {len(missed)} of {len(runs)} runs**, {sure} of them beyond" in overview


def test_the_runs_of_lab_steps_are_counted_under_the_limits_of_today() -> None:
    """Each row has how many runs of a cell hold the limits of the catalog's scenario."""
    limits = load_scenario("lab_steps").slos
    columns = (
        {"rebalance_dip_percent", "rebalance_recovery_seconds"},
        {"rebalance_area_seconds"},
        {"standstill_seconds"},
    )
    missed: dict[str, list[set[str]]] = {}
    for folder in ("step_dip", "step_dip/kubernetes", "step_dip_static"):
        for record, measures in kept_runs(folder):
            found = judge(measures, limits).slos
            names = {one.name for one in found if one.status in ("fail", "undetermined")}
            missed.setdefault(record["cell"], []).append(names)

    for cell, runs in missed.items():
        held = [sum(not of & names for names in runs) for of in columns]
        cells = (len(runs), *held, sum(not names for names in runs))
        assert f"| `{cell}` | {' | '.join(map(str, cells))} |" in page("step_dip")


def test_the_full_size_run_is_quoted_from_its_measures() -> None:
    """Peak, drain, dips, pod time and the balance of the messages are those of the kept run."""
    (run,) = files_of_runs("full-size")
    measures = Measures.model_validate(run.files["measures"])
    ups, downs = measures.rebalances.scale_ups, measures.rebalances.scale_downs
    scaling, accounting = measures.scaling, measures.accounting
    shown = page("full-size")

    assert run.files["verdict"]["status"] == "pass"
    assert f"| {measures.lag.peak_records:,} |" in shown
    assert f"| {measures.drain.drain_seconds:,.1f} s |" in shown
    assert f"| {measures.reaction.total_seconds:.1f} s |" in shown
    assert f"p99 {measures.validity.generator.lateness_p99_ms:.1f} ms" in shown
    assert f"{ups.steps} steps of four pods; deepest dip {ups.max_dip_percent:.1f} %" in shown
    assert f"{downs.steps} steps; deepest dip {downs.max_dip_percent:.1f} %" in shown
    assert f"{scaling.pod_minutes:.0f} pod-minutes in the planned" in shown
    assert f"minutes, {scaling.pod_minutes_after:,.0f} after it" in shown
    assert f"| {accounting.produced_acked:,} = {accounting.processed_distinct:,};" in shown
    assert (accounting.lost, accounting.duplicated) == (0, 0)


def test_the_findings_in_the_readme_are_those_of_the_kept_runs() -> None:
    """What README.md says that lagbench found out is computed from the runs behind its links."""
    documented = [
        Measures.model_validate(run.files["measures"])
        for run in files_of_runs("own_consumer")
        if f"| as documented | `{run.run_id}` |" in page("own_consumer")
    ]
    flips = [measures.scaling.flips or 0 for measures in documented]
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
    assert f"own_consumer/README.md): {min(flips)} to {max(flips)} flips" in readme
    assert f"with two of four balancers: {min(static)} to {max(static)} flips" in readme
    assert f"scale_down_loss/README.md): {lost[0]:,} and {lost[1]:,}" in readme
    assert f"live_group_java/README.md): {java[0]} and {java[1]}" in readme
    assert f"the drain of {(peak or 0) / 1e6:.1f} million messages" in readme
    assert f"live_group/README.md), {again[0]} and {again[1]}; the way there" in readme


KEEPERS = sorted(str(file.parent.relative_to(FINDINGS)) for file in FINDINGS.rglob(RUNS_FILE))


def test_the_overview_counts_the_kept_runs_that_passed() -> None:
    """Its table of verdicts has them for each row, of both benches and with repeated runs."""
    overview = (FINDINGS / "README.md").read_text()
    shown = re.findall(r"^\| \[([\w-]+)\].* \| (\d+ of \d+) \|", overview, re.MULTILINE)

    kept = {}
    for name, _ in shown:
        folders = [folder for folder in (name, f"{name}/kubernetes") if folder in KEEPERS]
        runs = [run for folder in folders for run in files_of_runs(folder)]
        passed = sum(run.files["verdict"]["status"] == "pass" for run in runs)
        kept[name] = f"{passed} of {len(runs)}"

    assert kept
    assert dict(shown) == kept


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


def test_what_the_added_pods_paid_is_counted_from_the_kept_runs() -> None:
    """The overview has how many runs paid, with standstills counted and, in older ones, without.

    It speaks of the runs that began before 11:00 UTC of 29 November 2026.
    """
    until = datetime(2026, 11, 29, 11, tzinfo=UTC).timestamp() * 1e9
    every = [run.files["measures"] for folder in KEEPERS for run in files_of_runs(folder)]
    found = [
        measures["paid_for_itself"]
        for measures in every
        if (measures["load"]["stream_started_at"] or 0) < until
    ]
    known = [one for one in found if one["has_paid"] is not None]
    counted = [one for one in known if one.get("held_by_standstills_records") is not None]
    older = [one for one in known if one.get("held_by_standstills_records") is None]
    (stood,) = (one for one in counted if one["held_by_standstills_records"])
    taken = max(
        (one["lost_to_dips_records"] + one["held_by_standstills_records"]) / one["cleared_records"]
        for one in counted
    )
    by_cell = {
        cell: [
            f"{measures.paid_for_itself.net_records_per_pod_minute:,.0f}"
            for record, measures in kept_runs("past_p/kubernetes")
            if is_cell(record, cell)
        ]
        for cell in ("twice_p", "capped", "eleven")
    }

    overview = " ".join((FINDINGS / "README.md").read_text().split())
    assert f"in {sum(one['has_paid'] for one in counted)} of {len(counted)} runs; dips" in overview
    assert f"at most {100 * taken:.1f} % of what the added pods cleared" in overview
    held, cleared = stood["held_by_standstills_records"], stood["cleared_records"]
    assert f"({held:,} of {cleared:,.0f} messages" in overview
    assert f"{sum(one['has_paid'] for one in older)} of {len(older)} paid" in overview
    assert f"{min(by_cell['twice_p'])} to {max(by_cell['twice_p'])} messages" in overview
    assert all(number in overview for number in by_cell["capped"] + by_cell["eleven"])
