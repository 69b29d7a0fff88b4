"""Each row that an experiment's page has for a run is computed from what was kept of it."""

import re
from statistics import fmean
from typing import Any

import pytest
from tests.unit.findings.kept import (
    files_of_runs,
    is_cell,
    kept_runs,
    page,
    replicas_text,
    steps_text,
)

from lagbench.core.measures import NAMED, Measures


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


def has_row(experiment: str, record: dict[str, Any], figures: str) -> bool:
    """Return whether the page has the run's figures, behind the way that its cell goes."""
    run = rf"\| `{record['cell']}` \| {record['pair']} \| [^|]+ \| {re.escape(figures)} \|"
    return re.search(run, page(experiment)) is not None


def test_what_the_ways_to_another_balancer_repeat_is_quoted_from_its_runs() -> None:
    """Each row of live_group has the repeats and the standstill of its run."""
    for record, measures in kept_runs("live_group"):
        accounting, standstill = measures.accounting, measures.standstill
        assert standstill is not None
        figures = (
            f"{accounting.lost} | {accounting.duplicated} | {accounting.zombie} | "
            f"{standstill.group_seconds:.1f} s | {standstill.partition_seconds:.1f} s"
        )
        assert has_row("live_group", record, figures)


def test_what_the_moves_of_javas_client_repeat_is_quoted_from_its_runs() -> None:
    """Each row of live_group_java has the repeats, the standstill and the time lag of its run."""
    for record, measures in kept_runs("live_group_java"):
        accounting, standstill = measures.accounting, measures.standstill
        assert standstill is not None
        figures = (
            f"{accounting.lost} | {accounting.duplicated} | {standstill.group_seconds:.1f} s | "
            f"{standstill.partition_seconds:.1f} s | {measures.lag.time_lag_seconds.p99:.1f} s"
        )
        assert has_row("live_group_java", record, figures)
        assert accounting.in_log == 66_000


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


@pytest.mark.parametrize("experiment", ["step_dip", "step_dip_static"])
def test_what_a_step_costs_is_quoted_from_its_runs(experiment: str) -> None:
    """Each row has the gap, the standstill, the dips and the flips of its run."""
    for record, measures in kept_runs(experiment):
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
        assert row in page(experiment)
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_the_eight_ways_of_a_step_are_those_of_both_experiments() -> None:
    """Each row of the table of step_dip is computed from all runs of its way."""
    ways: dict[str, list[Measures]] = {}
    for experiment in ("step_dip", "step_dip_static"):
        for record, measures in kept_runs(experiment):
            ways.setdefault(record["cell"], []).append(measures)
    assert len(ways) == 8
    for way, runs in ways.items():
        ups = [measures.rebalances.scale_ups for measures in runs]
        downs = [measures.rebalances.scale_downs for measures in runs]
        backs = [down.max_recovery_seconds for down in downs]
        row = (
            f"| `{way}` | {len(runs)} | {fmean(up.mean_dip_percent for up in ups):.1f} % | "
            f"{max(up.max_dip_percent for up in ups):.0f} % | "
            f"{fmean(up.mean_area_seconds for up in ups):.2f} s | "
            f"{max(up.max_recovery_seconds for up in ups):.1f} s | "
            f"{fmean(down.mean_dip_percent for down in downs):.1f} % | "
            f"{fmean(down.mean_area_seconds for down in downs):.2f} s | "
            f"{'–' if None in backs else f'{max(backs):.1f} s'} | "
            f"{max(m.rebalances.partition_gaps.max_seconds or 0 for m in runs):.1f} s | "
            f"{max(m.standstill.partition_seconds for m in runs):.1f} s |"
        )
        assert row in page("step_dip")


def test_how_often_a_lag_trigger_flips_is_quoted_from_its_runs() -> None:
    """Each row of gain_rule has the steps, the self-made flips and the time lag of its run."""
    for record, measures in kept_runs("gain_rule"):
        scaling, waits = measures.scaling, measures.lag.time_lag_seconds
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | "
            f"{scaling.self_made_flips} | {waits.p50:.1f} s | {waits.p99:.1f} s | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} | "
            f"{NAMED['rebalances'].read(measures):.0f} |"
        )
        assert row in page("gain_rule")
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_what_a_second_group_changes_is_quoted_from_its_runs() -> None:
    """Each row of two_groups has the replicas, the rebalances and the lag of both groups."""
    beside = {run.run_id: run.second for run in files_of_runs("two_groups")}
    for record, measures in kept_runs("two_groups"):
        lag, accounting = measures.lag, measures.accounting
        others = "–"
        if (files := beside[measures.run_id]) is not None:
            second = Measures.model_validate(files["measures"])
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


def test_what_the_formula_and_the_window_cost_is_quoted_from_its_runs() -> None:
    """Each row of hand_rolled has the steps, the rebalances and the price of its run."""
    for record, measures in kept_runs("hand_rolled"):
        scaling, found = measures.scaling, measures.rebalances
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | "
            f"{NAMED['rebalances'].read(measures):.0f} | "
            f"{scaling.flips}, {scaling.self_made_flips} | "
            f"{measures.drain.drain_seconds:.1f} s | "
            f"{measures.lag.time_lag_seconds.p99:.1f} s | {found.max_dip_percent:.0f} % | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} |"
        )
        assert row in page("hand_rolled")
        assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)


def test_the_four_controllers_are_compared_by_the_means_of_their_results() -> None:
    """The table at the head of hand_rolled has the means of the six runs that count."""
    cells: dict[str, list[Measures]] = {}
    for record, measures in kept_runs("hand_rolled"):
        if record["is_result"]:
            cells.setdefault(record["cell"], []).append(measures)
    runs = [cells[name] for name in ("bare", "keda", "keda_window", "bare_window")]
    assert [len(of_cell) for of_cell in runs] == [6, 6, 6, 6]
    for title, text, value in (
        ("rebalances", "{:.1f}", NAMED["rebalances"].read),
        ("flips", "{:.1f}", lambda m: m.scaling.flips),
        ("partitions handed over", "{:.1f}", lambda m: m.rebalances.partition_gaps.handovers),
        ("drain", "{:.1f} s", lambda m: m.drain.drain_seconds),
        ("time lag p99", "{:.1f} s", lambda m: m.lag.time_lag_seconds.p99),
        ("deepest dip", "{:.0f} %", lambda m: m.rebalances.max_dip_percent),
        ("pod-minutes in the window", "{:.1f}", lambda m: m.scaling.pod_minutes),
        (
            "pod-minutes with what comes after it",
            "{:.1f}",
            lambda m: m.scaling.pod_minutes + m.scaling.pod_minutes_after,
        ),
    ):
        means = " | ".join(text.format(fmean(value(m) for m in of_cell)) for of_cell in runs)
        assert f"| {title} | {means} |" in page("hand_rolled"), means


def test_what_waiting_costs_is_quoted_from_its_runs() -> None:
    """Each row of persistent_lag has the steps, the reaction and the price of its run."""
    for record, measures in kept_runs("persistent_lag"):
        scaling, lag = measures.scaling, measures.lag
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | "
            f"{measures.reaction.assigned_seconds:.1f} s | {lag.time_lag_seconds.p99:.1f} s | "
            f"{lag.peak_records:,} | {measures.drain.drain_seconds:.1f} s | "
            f"{NAMED['rebalances'].read(measures):.0f} | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} |"
        )
        assert row in page("persistent_lag")
        accounting = measures.accounting
        assert (accounting.lost, accounting.duplicated, scaling.flips) == (0, 0, 0)


def test_the_parts_of_the_reaction_are_quoted_from_their_runs() -> None:
    """Each row of reaction_parts has the sync, the start and the price of its run."""
    for record, measures in kept_runs("reaction_parts"):
        scaling, reaction = measures.scaling, measures.reaction
        parts = {link.name: link.part_seconds or 0 for link in reaction.links}
        sync = parts["t1"] + parts["t2"] + parts["t3"]
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | {sync:.1f} s | "
            f"{reaction.assigned_seconds - sync:.1f} s | {reaction.assigned_seconds:.1f} s | "
            f"{measures.lag.time_lag_seconds.p99:.1f} s | {measures.lag.peak_records:,} | "
            f"{measures.drain.drain_seconds:.1f} s | {NAMED['rebalances'].read(measures):.0f} | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} |"
        )
        assert row in page("reaction_parts")
        assert reaction.ruling_clock == "hpa_sync"
        accounting = measures.accounting
        assert (accounting.lost, accounting.duplicated, scaling.flips) == (0, 0, 0)


def test_where_the_reaction_goes_is_the_mean_of_its_runs() -> None:
    """Each part in the table of reaction_parts is the mean of twelve runs of both cells."""
    names = {
        "t1": "lag crosses the threshold",
        "t5": "until the pod is Ready",
        "t7": "until it has its first partition",
    }
    for name, title in names.items():
        means = []
        for cell in ("lag", "sync_5"):
            runs = [m for record, m in kept_runs("reaction_parts") if is_cell(record, cell)]
            assert len(runs) == 12
            links = [{link.name: link.part_seconds or 0 for link in m.reaction.links} for m in runs]
            means.append(fmean(of[name] + (of["t6"] if name == "t7" else 0) for of in links))
        assert f"| {title} | {means[0]:.1f} s | {means[1]:.1f} s |" in page("reaction_parts")


def test_what_a_forecast_gains_is_quoted_from_its_runs() -> None:
    """Each row of prescale has the steps, the time lag and the price of its run."""
    for record, measures in kept_runs("prescale"):
        scaling, lag = measures.scaling, measures.lag
        row = (
            f"| `{record['cell']}` | {record['pair']} | {steps_text(measures)} | "
            f"{lag.time_lag_seconds.p99:.1f} s | {lag.time_lag_seconds.p50:.1f} s | "
            f"{lag.peak_records:,} | {measures.drain.drain_seconds:.1f} s | "
            f"{NAMED['rebalances'].read(measures):.0f} | "
            f"{scaling.pod_minutes:.1f}, {scaling.pod_minutes_after:.1f} |"
        )
        assert row in page("prescale")
        accounting = measures.accounting
        assert (accounting.lost, accounting.duplicated, scaling.flips) == (0, 0, 0)
