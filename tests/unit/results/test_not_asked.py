"""An SLO that an action made unobservable is not asked; every other one is judged."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run

from lagbench.core.telemetry import records_of_programs as actions
from lagbench.core.telemetry import records_of_recorder as recorder
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure_run import judge_run

NS = 1_000_000_000
RESTART = ("broker_restart", "{kind: broker_restart, at_seconds: %s, for_seconds: 12}")
KILL = ("kill_pod", "{kind: kill_pod, at_seconds: %s}")


def at(second: float) -> int:
    """Return an instant of the stream."""
    return EPOCH + round(second * NS)


def without_lag(limit: float, begin: float = 162, end: float = 176) -> RunContent:
    """Return a run whose lag is not read around its drain (170 s), with a limit on the drain."""
    content = quick_spike_run()
    content.scenario_yaml = content.scenario_yaml.replace(
        "drain_seconds: 120", f"drain_seconds: {limit}"
    )
    content.tables["lag"] = [
        row for row in content.tables["lag"] if not at(begin) <= row[0] <= at(end)
    ]
    content.records = [
        record
        for record in content.records
        if not (isinstance(record, recorder.LagSample) and at(begin) <= record.at <= at(end))
    ]
    return content


def act(content: RunContent, action: tuple[str, str], begin: float, end: float) -> None:
    """Plan an action and stamp it."""
    kind, text = action
    content.scenario_yaml += f"actions: [{text % begin}]\n"
    source = "actions-0"
    content.records += [
        actions.ActionStarted(
            at=at(begin), source=source, number=0, action=kind, targets=["x"], planned_at=None
        ),
        actions.ActionEnded(at=at(end), source=source, number=0, action=kind),
    ]


def slo(verdict: Verdict, name: str) -> SloResult:
    """Return an SLO's result."""
    return next(result for result in verdict.slos if result.name == name)


def test_the_drain_in_an_outage_of_the_plan_is_not_asked(tmp_path: Path) -> None:
    """The lag fell below its threshold while the broker was away: the reason names the action."""
    content = without_lag(90)
    act(content, RESTART, 161, 174)

    verdict = judge_run(content.write(tmp_path))

    for name in ("drain_seconds", "lag_falls_at_full_parallelism"):
        assert slo(verdict, name).status == "not_judged"
        assert "broker_restart (actions.0)" in slo(verdict, name).reason
    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(
    ("action", "begin", "end"),
    [(None, 0, 0), (RESTART, 60, 73), (KILL, 161, 162)],
    ids=["without", "outside", "another-cause"],
)
def test_the_same_gap_without_its_action_stays_undetermined(
    tmp_path: Path, action: tuple[str, str] | None, begin: float, end: float
) -> None:
    """No action, one at another time, or one that hides no readings."""
    content = without_lag(90)
    if action is not None:
        act(content, action, begin, end)

    verdict = judge_run(content.write(tmp_path))

    assert slo(verdict, "drain_seconds").status == "undetermined"
    assert slo(verdict, "lag_falls_at_full_parallelism").status == "undetermined"
    assert verdict.status == "undetermined"


@pytest.mark.parametrize(("limit", "status"), [(70, "fail"), (120, "pass")])
def test_an_slo_that_the_gap_does_not_open_is_judged(
    tmp_path: Path, limit: float, status: str
) -> None:
    """Before the gap the limit had passed, or after it there was still time."""
    content = without_lag(limit)
    act(content, RESTART, 161, 174)

    verdict = judge_run(content.write(tmp_path))

    assert slo(verdict, "drain_seconds").status == status


def test_a_gap_beside_the_hidden_one_stays_open(tmp_path: Path) -> None:
    """Each gap needs an action: one before it is nobody's plan."""
    content = without_lag(90)
    outside = without_lag(90, 120, 127)
    kept = {row[0] for row in outside.tables["lag"]}
    content.tables["lag"] = [row for row in content.tables["lag"] if row[0] in kept]
    content.records = [r for r in content.records if r in outside.records]
    act(content, RESTART, 161, 174)

    verdict = judge_run(content.write(tmp_path))

    assert slo(verdict, "drain_seconds").status == "not_judged"
    assert slo(verdict, "lag_falls_at_full_parallelism").status == "undetermined"
