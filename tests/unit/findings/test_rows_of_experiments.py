"""Each row that an experiment's page has for a run is computed from what was kept of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from statistics import fmean
from typing import Any

import pytest
from tests.unit.findings.kept import (
    FINDINGS,
    files_of_runs,
    is_cell,
    kept_runs,
    page,
    replicas_text,
    steps_text,
)

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.core.compare.experiment_result import PRICE, WAIT
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.reaction import STAGES
from lagbench.results.executions import read_result


def pods(m: Measures) -> str:
    """Return the pod time in the planned window, and what came after it."""
    return f"{m.scaling.pod_minutes:.1f}, {m.scaling.pod_minutes_after:.1f}"


def bad(m: Measures) -> str:
    """Return the messages lost and done twice."""
    return f"{m.accounting.lost} | {m.accounting.duplicated}"


def moves(m: Measures) -> str:
    """Return the rebalances."""
    return f"{NAMED['rebalances'].read(m):.0f}"


def p99(m: Measures) -> str:
    """Return the time lag."""
    return f"{m.lag.time_lag_seconds.p99:.1f} s"


def stood(m: Measures) -> str:
    """Return the standstill of the group and of a partition."""
    return f"{m.standstill.group_seconds:.1f} s | {m.standstill.partition_seconds:.1f} s"


def steps(m: Measures) -> str:
    """Return the replica steps; a dash without any."""
    return steps_text(m) if m.scaling.changes else "–"


def reaction(m: Measures) -> str:
    """Return the sync, the start and the whole reaction."""
    assert m.reaction.ruling_clock == "hpa_sync"
    parts = {link.name: link.part_seconds or 0 for link in m.reaction.links}
    sync, whole = parts["t1"] + parts["t2"] + parts["t3"], m.reaction.assigned_seconds
    return f"{sync:.1f} s | {whole - sync:.1f} s | {whole:.1f} s"


def wait_after_idle(m: Measures) -> str:
    """Poll and start are what lies before and after KEDA's step from 0 to 1."""
    idle = m.lag.after_idle
    first = next(c.at for c in m.scaling.changes if c.at > idle.planned_at)
    poll = (first - idle.planned_at) / 1e9
    return f"{poll:.1f} s | {idle.seconds - poll:.1f} s | {idle.seconds:.1f} s"


def handovers(m: Measures) -> str:
    """Return what a rolling restart hands over."""
    gaps, dip = m.rebalances.partition_gaps, m.rebalances.of_actions.max_dip_percent
    longest = "–" if gaps.max_seconds is None else f"{gaps.max_seconds:.1f} s"
    partition = f"{m.standstill.partition_seconds:.1f} s"
    return f"{gaps.handovers} | {longest} | {partition} | {dip:.1f} %"


def step_costs(m: Measures) -> str:
    """Return the gap, the standstill, the dips and the flips of a run."""
    found = m.rebalances
    return (
        f"{found.partition_gaps.max_seconds:.1f} s | {m.standstill.partition_seconds:.1f} s | "
        f"{found.scale_ups.mean_dip_percent:.0f} % | {found.scale_downs.mean_dip_percent:.0f} % | "
        f"{m.scaling.change_count} | {m.scaling.self_made_flips}"
    )


def surplus(m: Measures) -> str:
    """Return the surplus pods, their messages and their time."""
    extra, zero = m.scaling.surplus_pods, m.scaling.zero_partition_pod_seconds
    return f"{len(extra)} | {m.scaling.surplus_records if extra else '–'} | {zero:.0f} s"


def paid(m: Measures) -> str:
    """Return what a policy paid, and for what."""
    return f"{steps(m)} | {pods(m)} | {m.lag.peak_records:,} | {p99(m)} | {bad(m)}"


def drain(m: Measures) -> str:
    """Return the drain."""
    return f"{m.drain.drain_seconds:.1f} s"


def work(m: Measures) -> str:
    """Return what work that is waited for may change."""
    ups, cpu = m.rebalances.scale_ups, m.scaling.cpu_ms_per_message
    dips = f"{ups.mean_dip_percent:.1f} % | {ups.max_dip_percent:.0f} %"
    return f"{dips} | {p99(m)} | {drain(m)} | {cpu:.2f} ms | {bad(m)}"


def peak(m: Measures) -> str:
    """Return the peak of the lag."""
    return f"{m.lag.peak_records:,}"


ROWS: dict[str, Callable[[Measures], str]] = {
    "policy_swap": lambda m: f"{steps(m)} | 12 | 0 | 0 | {drain(m)} | {pods(m)}",
    "scale_to_zero": lambda m: f"{wait_after_idle(m)} | {m.accounting.lost}",
    "rolling_restart": lambda m: f"{handovers(m)} | {p99(m)} | {bad(m)}",
    "reaction_clock": lambda m: f"{reaction(m)} | {bad(m)}",
    "poison_pill": lambda m: (
        f"{paid(m)} | {m.lag.time_lag_seconds.p95:.1f} s | {m.scaling.self_made_flips}"
    ),
    "signal_lag_cpu": paid,
    "slow_downstream": paid,
    "past_p": lambda m: (
        f"{steps(m)} | {surplus(m)} | {m.drain.drain_seconds:.0f} s | {p99(m)} | {pods(m)}"
    ),
    "past_p_24": lambda m: (
        f"{steps(m)} | {surplus(m)} | {drain(m)} | {p99(m)} | {pods(m)} | "
        f"{m.paid_for_itself.net_records_per_pod_minute:,.0f}"
    ),
    "step_dip": lambda m: f"{step_costs(m)} | {pods(m)} | {p99(m)}",
    "step_dip_static": lambda m: f"{step_costs(m)} | {pods(m)} | {p99(m)}",
    "work_waited": work,
    "work_waited_steps": work,
    "advice_by_point": lambda m: (
        f"{replicas_text(m)} | {m.scaling.self_made_flips} | {bad(m)} | {stood(m)} | "
        f"{p99(m)} | {pods(m)} | {m.paid_for_itself.net_records_per_pod_minute:,.0f}"
    ),
    "gain_rule": lambda m: (
        f"{steps(m)} | {m.scaling.self_made_flips} | "
        f"{m.lag.time_lag_seconds.p50:.1f} s | {p99(m)} | {pods(m)} | {moves(m)}"
    ),
    "hand_rolled": lambda m: (
        f"{steps(m)} | {moves(m)} | {m.scaling.flips}, "
        f"{m.scaling.self_made_flips} | {drain(m)} | {p99(m)} | "
        f"{m.rebalances.max_dip_percent:.0f} % | {pods(m)}"
    ),
    "persistent_lag": lambda m: (
        f"{steps(m)} | {m.reaction.assigned_seconds:.1f} s | {p99(m)} | "
        f"{peak(m)} | {drain(m)} | {moves(m)} | {pods(m)}"
    ),
    "reaction_parts": lambda m: (
        f"{steps(m)} | {reaction(m)} | {p99(m)} | {peak(m)} | {drain(m)} | {moves(m)} | {pods(m)}"
    ),
    "prescale": lambda m: (
        f"{steps(m)} | {p99(m)} | {m.lag.time_lag_seconds.p50:.1f} s | "
        f"{peak(m)} | {drain(m)} | {moves(m)} | {pods(m)}"
    ),
}
WITHOUT_BAD = {"past_p", "past_p_24", "step_dip", "step_dip_static", "gain_rule", "hand_rolled"}
WITHOUT_FLIPS = {"persistent_lag", "reaction_parts", "prescale"}
WAYS: dict[str, Callable[[Measures], str]] = {  # behind the way that the cell goes
    "live_group": lambda m: f"{bad(m)} | {m.accounting.zombie} | {stood(m)}",
    "live_group_java": lambda m: f"{bad(m)} | {stood(m)} | {p99(m)}",
    "kip_848_by_client": lambda m: f"{bad(m)} | {stood(m)} | {p99(m)}",
}


@pytest.mark.parametrize("experiment", ROWS)
def test_a_row_has_the_figures_of_its_run(experiment: str) -> None:
    """And where the page says so, nothing was lost, done twice, or flipped."""
    for record, measures in kept_runs(experiment):
        row = f"| `{record['cell']}` | {record['pair']} | {ROWS[experiment](measures)} |"
        assert row in page(experiment)
        if experiment in WITHOUT_BAD | WITHOUT_FLIPS:
            assert (measures.accounting.lost, measures.accounting.duplicated) == (0, 0)
        if experiment in WITHOUT_FLIPS:
            assert measures.scaling.flips == 0


@pytest.mark.parametrize("experiment", WAYS)
def test_a_row_has_the_figures_of_its_run_behind_its_way(experiment: str) -> None:
    """The repeats and the standstills of the moves to another balancer."""
    for record, measures in kept_runs(experiment):
        figures = re.escape(WAYS[experiment](measures))
        run = rf"\| `{record['cell']}` \| {record['pair']} \| [^|]+ \| {figures} \|"
        assert re.search(run, page(experiment))


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
        assert bad(measures) == "0 | 0"


def test_what_a_second_group_changes_is_quoted_from_its_runs() -> None:
    """Each row of two_groups has the replicas, the rebalances and the lag of both groups."""
    beside = {run.run_id: run.second for run in files_of_runs("two_groups")}
    for record, measures in kept_runs("two_groups"):
        others = "–"
        if (files := beside[measures.run_id]) is not None:
            second = Measures.model_validate(files["measures"])
            others = replicas_text(second)
            assert bad(second) == "0 | 0"
        changed = steps_text(measures) if measures.scaling.changes else replicas_text(measures)
        row = (
            f"| `{record['cell']}` | {record['pair']} | {changed} | {moves(measures)} | "
            f"{peak(measures)} | {measures.lag.time_lag_seconds.p99:.2f} s | {bad(measures)} | "
            f"{others} |"
        )
        assert row in page("two_groups")


def by_cell(*experiments: str, **only: Any) -> dict[str, list[Measures]]:
    """Return the kept runs by cell, of those whose record has the given values."""
    found: dict[str, list[Measures]] = {}
    for experiment in experiments:
        for record, measures in kept_runs(experiment):
            if all(record[name] == value for name, value in only.items()):
                found.setdefault(record["cell"], []).append(measures)
    return found


def test_the_eight_ways_of_a_step_are_those_of_both_experiments() -> None:
    """Each row of the table of step_dip is computed from all runs of its way."""
    ways = by_cell("step_dip", "step_dip_static")
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


def test_the_four_controllers_are_compared_by_the_means_of_their_results() -> None:
    """The table at the head of hand_rolled has the means of the six runs that count."""
    cells = by_cell("hand_rolled", is_result=True)
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


@pytest.mark.parametrize("name", ["sync_on_step", "hand_rolled"])
def test_a_picture_has_the_numbers_of_the_kept_runs(name: str) -> None:
    """Its reactions are whole, and its wait and its pod time are those of the runs."""
    result = read_result(ExperimentFolder(FINDINGS / name))
    assert result is not None
    runs = files_of_runs(name)
    kept = {run.run_id: Measures.model_validate(run.files["measures"]) for run in runs}
    for run in result.runs:
        m = kept[run.run_id or ""]
        if name == "sync_on_step":
            whole = sum(run.pictured[stage] for stage in STAGES)
            assert whole == pytest.approx(m.reaction.total_seconds, abs=0.001)
        else:
            pods = m.scaling.pod_minutes + m.scaling.pod_minutes_after
            assert run.pictured == {WAIT: m.lag.time_lag_seconds.p99, PRICE: pytest.approx(pods)}


def test_pod_start_has_the_means_of_its_cells() -> None:
    """Stages of the reaction, its range, the pod's part, the wait, and the price."""
    runs: dict[str, dict[int, Measures]] = {}
    for record, measures in kept_runs("pod_start"):  # of a repeated run the last one
        runs.setdefault(record["cell"], {})[record["pair"]] = measures
    assert {len(of_cell) for of_cell in runs.values()} == {6}
    for cell, of_cell in runs.items():
        measured = list(of_cell.values())
        stages = [m.reaction.stages for m in measured]
        sync = fmean(one["t1"] + one["t3"] for one in stages)
        start, group = (fmean(one[name] for one in stages) for name in ("t5", "t7"))
        wholes = [m.reaction.assigned_seconds for m in measured]
        parts = [m.reaction.pod_start_percent for m in measured]
        waits = [m.lag.time_lag_seconds.p99 for m in measured]
        price = fmean(m.scaling.pod_minutes for m in measured)
        assert (
            f"| `{cell}` | {sync:.1f} s | {start:.1f} s | {group:.1f} s | {fmean(wholes):.1f} s "
            f"({min(wholes):.1f} to {max(wholes):.1f}) | "
            f"{fmean(parts):.0f} % ({min(parts):.0f} to {max(parts):.0f}) | "
            f"{fmean(waits):.1f} s ({min(waits):.1f} to {max(waits):.1f}) | {price:.1f} |"
        ) in page("pod_start")


def test_hottest_share_has_both_policies_of_each_pair() -> None:
    """The share, the reactions, the waits and the price; nothing lost, repeated or flipped."""
    pairs: dict[int, dict[str, Measures]] = {}
    for record, measures in kept_runs("hottest_share"):
        pairs.setdefault(record["pair"], {})[record["cell"]] = measures
        assert bad(measures) == "0 | 0"
        assert measures.scaling.flips == 0
    assert len(pairs) == 12
    for pair, of_pair in pairs.items():
        both = (of_pair["sync_15"], of_pair["sync_5"])
        waits = [m.lag.time_lag_seconds.p99 for m in both]
        cells = [
            f"{both[0].accounting.hottest_partition_share:.3f}",
            *(f"{m.reaction.assigned_seconds:.1f} s" for m in both),
            *map(p99, both),
            f"{waits[1] - waits[0]:+.1f} s",
            *map(drain, both),
            *(f"{m.scaling.pod_minutes + m.scaling.pod_minutes_after:.1f}" for m in both),
        ]
        assert f"| {pair} | {both[0].seed} | {' | '.join(cells)} |" in page("hottest_share")


def spread(values: list[float]) -> str:
    """Return a mean with its range."""
    return f"{fmean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


@pytest.mark.parametrize("name", ["lag_threshold", "lag_threshold_2000"])
def test_lag_threshold_has_the_means_of_its_cells(name: str) -> None:
    """Both waits against the SLO of 35 s, the replicas, and the price."""
    for cell, runs in by_cell(name).items():
        drains = [m.drain.drain_seconds for m in runs]
        waits = [m.lag.time_lag_seconds.p99 for m in runs]
        most = [m.scaling.max_replicas for m in runs]
        price = [m.scaling.pod_minutes + m.scaling.pod_minutes_after for m in runs]
        inside, after = (
            fmean(getattr(m.scaling, name) for m in runs)
            for name in ("pod_minutes", "pod_minutes_after")
        )
        row = (
            f"| `{cell}` | {spread(drains)} s | {sum(d <= 35 for d in drains)} of 6 | "
            f"{spread(waits)} s | {sum(w <= 35 for w in waits)} of 6 | "
            f"{fmean(m.lag.time_lag_seconds.p50 for m in runs):.1f} s | "
            f"{min(most)} to {max(most)} | {inside:.1f}, {after:.1f} | {spread(price)} | "
            f"{fmean(m.paid_for_itself.net_records_per_pod_minute for m in runs):,.0f} |"
        )
        assert row in page(name)
        assert {bad(m) for m in runs} == {"0 | 0"}
        assert len(runs) == 6


def test_partition_options_has_the_means_of_its_cells() -> None:
    """The pod time of each option, how much of it was without work, and the waits."""
    for cell, runs in by_cell("partition_options").items():
        after, idle = (
            fmean(getattr(m.scaling, name) for m in runs)
            for name in ("pod_minutes_after", "idle_pod_minutes")
        )
        row = (
            f"| {spread([m.scaling.pod_minutes for m in runs])} | {after:.1f} | {idle:.1f} | "
            f"{spread([m.drain.drain_seconds for m in runs])} s | "
            f"{spread([m.lag.time_lag_seconds.p99 for m in runs])} s |"
        )
        assert re.search(rf"\| `{cell}` \| [^|]+ {re.escape(row)}", page("partition_options"))
        assert {bad(m) for m in runs} == {"0 | 0"}
        assert {m.scaling.max_replicas for m in runs} == {12}
        assert len(runs) == 6
