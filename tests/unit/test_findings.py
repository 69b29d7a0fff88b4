"""The figures that pages of findings quote are those of the kept runs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from lagbench.core.compare import Bound, Pair, compare_pairs
from lagbench.core.measures import NAMED, Measures
from lagbench.core.measures.rebalance.step_costs import step_costs

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = ROOT / "docs" / "findings"
BOUND_POINTS = 10.0


def kept_runs(experiment: str) -> Iterator[tuple[dict[str, Any], Measures]]:
    """Yield the record and the measures of each kept run, also of a repeated one."""
    records = sorted((FINDINGS / experiment / "runs").glob("*/record.json"))
    assert records, f"no run of {experiment} is kept"
    for record in records:
        measures = (record.parent / "measures.json").read_text()
        yield json.loads(record.read_text()), Measures.model_validate_json(measures)


def page(experiment: str) -> str:
    """Return a page of findings with each blank and line break as one blank."""
    return " ".join((FINDINGS / experiment / "README.md").read_text().split())


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
            "scale_ups": step_costs(summary.episodes, "scale_up"),
            "scale_downs": step_costs(summary.episodes, "scale_down"),
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
    folders = sorted((FINDINGS / "own_consumer" / "runs").iterdir())
    for folder in folders:
        verdict = json.loads((folder / "verdict.json").read_text())["status"]
        measures = Measures.model_validate_json((folder / "measures.json").read_text())
        load = measures.load
        assert load.last_spike_ended_at is not None
        assert load.first_spike_started_at is not None
        spike = (load.last_spike_ended_at - load.first_spike_started_at) / 1e9
        row = f"(runs/{folder.name}) | {verdict} | {spike:.0f} s | {measures.scaling.flips} |"
        assert row in shown
        repeated, distinct = measures.accounting.duplicated, measures.accounting.processed_distinct
        assert f"{repeated:,} of {distinct:,} | {measures.accounting.lost} |" in shown

    assert len(folders) == 7


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


def steps_text(measures: Measures, most: int | None = None) -> str:
    """Return the replica steps with their seconds of the stream, as the pages quote them."""
    began = measures.load.stream_started_at or 0
    changes = measures.scaling.changes[:most]
    first, *others = [f"→ {c.replicas_after} at {(c.at - began) / 1e9:.1f}" for c in changes]
    return ", ".join([f"{changes[0].replicas_before} {first}", *others])


def test_the_steps_of_the_swapped_policy_are_those_of_its_runs() -> None:
    """Each row of policy_swap quotes the replicas, the drain and the pod time of its run."""
    for record, measures in kept_runs("policy_swap"):
        pods, after = measures.scaling.pod_minutes, measures.scaling.pod_minutes_after
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | 12 | 0 | 0 | "
            f"{measures.drain.drain_seconds:.1f} s | {pods:.1f}, {after:.1f} |"
        )
        assert row in page("policy_swap")


def test_the_wait_after_idle_is_that_of_its_runs() -> None:
    """Poll and start are what lies before and after KEDA's step from 0 to 1."""
    for record, measures in kept_runs("scale_to_zero"):
        idle = measures.lag.after_idle
        assert idle is not None
        assert idle.seconds is not None
        steps = [c.at for c in measures.scaling.changes if c.at > idle.planned_at]
        poll = (steps[0] - idle.planned_at) / 1e9
        row = (
            f"| `{record['cell']}` | {record['pair']} | {poll:.1f} s | {idle.seconds - poll:.1f} s "
            f"| {idle.seconds:.1f} s | {measures.accounting.lost} |"
        )
        assert row in page("scale_to_zero")


def test_what_added_partitions_changed_is_quoted_from_its_runs() -> None:
    """Each row of partition_growth has the climb, the drain and the moved keys of its run."""
    for record, measures in kept_runs("partition_growth"):
        moved = measures.accounting.moved
        climb = 2 if moved is None else 3
        text = (
            f"| {record['pair']} | {steps_text(measures, climb)} | "
            f"{measures.scaling.max_replicas} | {measures.drain.drain_seconds:.0f} s | 0 | 0 |"
        )
        if moved is not None:
            text += f" {moved.keys:,} | {moved.overtaken:,} of {moved.messages:,} | "
            text += f"{moved.most_seconds:.0f} s |"
        assert text in page("partition_growth")
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_the_full_size_run_is_quoted_from_its_measures() -> None:
    """Peak, drain, dips, pod time and the balance of the messages are those of the kept run."""
    folder = FINDINGS / "full-size" / "run"
    measures = Measures.model_validate_json((folder / "measures.json").read_text())
    ups, downs = measures.rebalances.scale_ups, measures.rebalances.scale_downs
    scaling, accounting = measures.scaling, measures.accounting
    shown = page("full-size")

    assert json.loads((folder / "verdict.json").read_text())["status"] == "pass"
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


def test_what_a_rolling_restart_hands_over_is_quoted_from_its_runs() -> None:
    """Each row of rolling_restart has the handovers, dip and time lag of its run."""
    for record, measures in kept_runs("rolling_restart"):
        gaps, accounting = measures.rebalances.partition_gaps, measures.accounting
        longest = "–" if gaps.max_seconds is None else f"{gaps.max_seconds:.1f} s"
        dip = measures.rebalances.of_actions.max_dip_percent
        row = (
            f"| `{record['cell']}` | {record['pair']} | {gaps.handovers} | {longest} | "
            f"{measures.standstill.partition_seconds:.1f} s | {dip:.1f} % | "
            f"{measures.lag.time_lag_seconds.p99:.1f} s | {accounting.lost} | "
            f"{accounting.duplicated} |"
        )
        assert row in page("rolling_restart")


def test_which_clock_ruled_is_quoted_from_its_runs() -> None:
    """Each row of reaction_clock has the sync, the start and the reaction of its run."""
    for record, measures in kept_runs("reaction_clock"):
        reaction = measures.reaction
        assert reaction.ruling_clock == "hpa_sync"
        assert reaction.assigned_seconds is not None
        parts = {link.name: link.part_seconds or 0 for link in reaction.links}
        sync = parts["t1"] + parts["t2"] + parts["t3"]
        row = (
            f"| `{record['cell']}` | {record['pair']} | {sync:.1f} s | "
            f"{reaction.assigned_seconds - sync:.1f} s | {reaction.assigned_seconds:.1f} s | "
            f"{measures.accounting.lost} | {measures.accounting.duplicated} |"
        )
        assert row in page("reaction_clock")


def test_what_the_ways_to_another_balancer_repeat_is_quoted_from_its_runs() -> None:
    """Each row of live_group has the repeats and the standstill of its run."""
    for record, measures in kept_runs("live_group"):
        accounting, standstill = measures.accounting, measures.standstill
        assert standstill is not None
        figures = (
            f"{accounting.lost} | {accounting.duplicated} | {accounting.zombie} | "
            f"{standstill.group_seconds:.1f} s | {standstill.partition_seconds:.1f} s"
        )
        row = rf"\| `{record['cell']}` \| {record['pair']} \| [^|]+ \| {re.escape(figures)} \|"
        assert re.search(row, page("live_group"))


@pytest.mark.parametrize("experiment", ["poison_pill", "signal_lag_cpu", "slow_downstream"])
def test_what_a_policy_paid_is_quoted_from_its_runs(experiment: str) -> None:
    """Each row has the steps, the pod time, the peak and the time lag of its run."""
    for record, measures in kept_runs(experiment):
        scaling, lag, accounting = measures.scaling, measures.lag, measures.accounting
        steps = steps_text(measures) if scaling.changes else "–"
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps} | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} | {lag.peak_records:,} | "
            f"{lag.time_lag_seconds.p99:.1f} s | {accounting.lost} | {accounting.duplicated} |"
        )
        if experiment == "poison_pill":
            row += f" {lag.time_lag_seconds.p95:.1f} s | {scaling.self_made_flips} |"
        assert row in page(experiment)


def test_what_surplus_pods_did_is_quoted_from_their_runs() -> None:
    """Each row of past_p has the surplus pods, their messages and the price of its run."""
    for record, measures in kept_runs("past_p"):
        scaling, lag = measures.scaling, measures.lag
        done = scaling.surplus_records if scaling.surplus_pods else "–"
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | "
            f"{len(scaling.surplus_pods)} | {done} | {scaling.zero_partition_pod_seconds:.0f} s | "
            f"{measures.drain.drain_seconds:.0f} s | {lag.time_lag_seconds.p99:.1f} s | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} |"
        )
        assert row in page("past_p")
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_what_a_static_member_costs_is_quoted_from_its_runs() -> None:
    """Each row of step_dip_static has the gap, the standstill, dips and flips of its run."""
    for record, measures in kept_runs("step_dip_static"):
        found, scaling = measures.rebalances, measures.scaling
        row = (
            f"| `{record['cell']}` | {record['pair']} | {found.partition_gaps.max_seconds:.1f} s | "
            f"{measures.standstill.partition_seconds:.1f} s | "
            f"{found.scale_ups.mean_dip_percent:.0f} % | "
            f"{found.scale_downs.mean_dip_percent:.0f} % | {scaling.change_count} | "
            f"{scaling.self_made_flips} | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} | "
            f"{measures.lag.time_lag_seconds.p99:.1f} s |"
        )
        assert row in page("step_dip_static")
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_what_a_second_group_changes_is_quoted_from_its_runs() -> None:
    """Each row of two_groups has the replicas, the rebalances and the lag of both groups."""
    for record, measures in kept_runs("two_groups"):
        lag, accounting = measures.lag, measures.accounting
        beside = FINDINGS / "two_groups" / "runs" / measures.run_id / "second_group"
        others = "–"
        if beside.exists():
            second = Measures.model_validate_json((beside / "measures.json").read_text())
            others = replicas_text(second)
            assert (second.accounting.lost, second.accounting.duplicated) == (0, 0)
        steps = steps_text(measures) if measures.scaling.changes else replicas_text(measures)
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps} | "
            f"{NAMED['rebalances'].read(measures):.0f} | {lag.peak_records:,} | "
            f"{lag.time_lag_seconds.p99:.2f} s | {accounting.lost} | {accounting.duplicated} | "
            f"{others} |"
        )
        assert row in page("two_groups")


def replicas_text(measures: Measures) -> str:
    """Return the replicas in their order, as the pages quote them."""
    changes = measures.scaling.changes
    after = [str(change.replicas_after) for change in changes]
    first = changes[0].replicas_before if changes else measures.scaling.max_replicas
    return " → ".join([str(first), *after])


def test_the_five_lines_of_the_readme_are_those_of_the_kept_runs() -> None:
    """What README.md says that lagbench found out is computed from the runs behind its links."""
    documented = [
        Measures.model_validate_json(
            (FINDINGS / "own_consumer" / run / "measures.json").read_text()
        )
        for run in re.findall(r"\| as documented \| \[[^]]+\]\(([^)]+)\)", page("own_consumer"))
    ]
    flips = [measures.scaling.flips or 0 for measures in documented]
    repeated = max(measures.accounting.duplicated or 0 for measures in documented)
    lost = [
        m.accounting.lost for record, m in kept_runs("scale_down_loss") if is_cell(record, "auto")
    ]
    again = [
        m.accounting.duplicated for record, m in kept_runs("live_group") if is_cell(record, "back")
    ]
    static = [
        m.scaling.self_made_flips or 0
        for record, m in kept_runs("step_dip_static")
        if record["cell"] in ("kip_848_static", "range_static")
    ]
    full_size = (FINDINGS / "full-size" / "run" / "measures.json").read_text()
    peak = Measures.model_validate_json(full_size).lag.peak_records

    readme = " ".join((ROOT / "README.md").read_text().split())
    assert (
        f"{min(flips)} to {max(flips)} flips and up to {repeated:,} messages done twice" in readme
    )
    assert f"{min(static)} to {max(static)} self-made flips with KIP-848 and with range" in readme
    assert f"at scale-up**: {lost[0]:,} and {lost[1]:,}. A graceful" in readme
    assert f"the drain of {(peak or 0) / 1e6:.1f} million messages" in readme
    assert f"repeats messages**, {again[0]} and {again[1]}. The way there" in readme


def is_cell(record: dict[str, Any], cell: str) -> bool:
    """Return whether a kept run is one of a cell."""
    return record["cell"] == cell
