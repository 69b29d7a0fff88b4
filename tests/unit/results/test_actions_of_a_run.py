"""Whole runs with actions, judged from their folders: with, without, outside, of another cause."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run

from lagbench.core.telemetry import records as t
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure import judge_run, measure_run

NS = 1_000_000_000
KILL = "{kind: kill_pod, at_seconds: 100}"
RESTART = "{kind: rolling_restart, at_seconds: 100}"
PAUSE = "{kind: pause_pod, at_seconds: 100, for_seconds: 30}"
DOWN = "{kind: autoscaler_down, at_seconds: 100, for_seconds: 30}"
LATER = "{kind: kill_pod, at_seconds: 200}"
SWAP = "{kind: swap_policy, at_seconds: 30, policy: wider}"


def at(second: float) -> int:
    """Return an instant of the stream."""
    return EPOCH + round(second * NS)


def plan(content: RunContent, *actions: str) -> None:
    """Put actions into the scenario."""
    content.scenario_yaml += f"actions: [{', '.join(actions)}]\n"


def stamp(content: RunContent, kind: str, begin: float, end: float, *, error: str = "") -> None:
    """Stamp action 0 as played from ``begin`` to ``end``."""
    content.records += [
        t.ActionStarted(
            at=at(begin),
            source="actions-0",
            number=0,
            action=kind,
            targets=["consumer-0"],
            planned_at=None,
        ),
        t.ActionEnded(at=at(end), source="actions-0", number=0, action=kind, error=error),
    ]


def add_members(content: RunContent, begin: float, end: float, *, members: int = 13) -> None:
    """Let the broker count more members than the 12 pods, for so long."""
    content.records = [
        msgspec.structs.replace(r, members=members)
        if isinstance(r, t.GroupSample) and at(begin) <= r.at <= at(end)
        else r
        for r in content.records
    ]


def add_a_replica(content: RunContent, begin: float, end: float) -> None:
    """Let 13 replicas be wanted, one more than the policy allows, for so long."""
    content.records = [
        msgspec.structs.replace(r, spec=13)
        if isinstance(r, t.ReplicaSample) and at(begin) <= r.at <= at(end)
        else r
        for r in content.records
    ]


def judged(content: RunContent, root: Path) -> Verdict:
    """Return the verdict."""
    return judge_run(content.write(root))


@pytest.mark.parametrize(
    ("action", "kind", "end"),
    [(KILL, "kill_pod", 101), (PAUSE, "pause_pod", 130), (RESTART, "rolling_restart", 110)],
)
def test_an_action_on_pods_is_judged_through(
    tmp_path: Path, action: str, kind: str, end: float
) -> None:
    """The members that the broker still counts are its doing: the run passes."""
    content = quick_spike_run()
    plan(content, action)
    stamp(content, kind, 100, end)
    add_members(content, 100, 140)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(
    ("action", "kind", "begin", "end"),
    [
        ("", "", 0, 0),
        (LATER, "kill_pod", 200, 201),
        (DOWN, "autoscaler_down", 100, 130),
    ],
    ids=["without", "outside", "another-cause"],
)
def test_the_same_members_without_their_action_stay_undetermined(
    tmp_path: Path, action: str, kind: str, begin: float, end: float
) -> None:
    """No action, one at another time, or one that does not cause this excuses nothing."""
    content = quick_spike_run()
    if action:
        plan(content, action)
        stamp(content, kind, begin, end)
    add_members(content, 100, 140)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert any("13 members" in reason for reason in verdict.reasons)


def test_an_action_excuses_as_many_members_as_it_has_targets(tmp_path: Path) -> None:
    """One killed pod leaves one dead member; the second one too many is somebody else."""
    content = quick_spike_run()
    plan(content, KILL)
    stamp(content, "kill_pod", 100, 101)
    add_members(content, 100, 140, members=14)

    assert judged(content, tmp_path).status == "undetermined"


@pytest.mark.parametrize("stamps", ["none", "failed", "late"])
def test_a_planned_action_that_was_not_played_leaves_the_run_undetermined(
    tmp_path: Path, stamps: str
) -> None:
    """The run did not have the conditions of its plan, though all its SLOs hold."""
    content = quick_spike_run()
    plan(content, KILL)
    if stamps == "failed":
        stamp(content, "kill_pod", 100, 101, error="no consumer pod is Ready")
    elif stamps == "late":
        stamp(content, "kill_pod", 120, 121)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert verdict.invalid
    assert "actions.0 (kill_pod, at 100 s)" in verdict.reasons[0]
    assert not any(slo.status == "pass" for slo in verdict.slos)


def test_a_failed_slo_stays_failed_in_the_window_of_an_action(tmp_path: Path) -> None:
    """An action of a kind in the run excuses no SLO by its name."""
    content = quick_spike_run()
    content.scenario_yaml = content.scenario_yaml.replace("drain_seconds: 120", "drain_seconds: 60")
    plan(content, KILL)
    stamp(content, "kill_pod", 100, 101)

    verdict = judged(content, tmp_path)

    assert verdict.status == "fail"
    assert next(slo for slo in verdict.slos if slo.name == "drain_seconds").status == "fail"


def test_a_lost_message_is_judged_in_the_window_of_an_action(tmp_path: Path) -> None:
    """Loss is judged by identity always."""
    content = quick_spike_run()
    plan(content, KILL)
    stamp(content, "kill_pod", 100, 101)
    content.accounting["lost"] += 1
    content.accounting["processed_distinct"] -= 1
    content.accounting["processed_records"] -= 1

    lost = next(slo for slo in judged(content, tmp_path).slos if slo.name == "lost")

    assert lost.status == "fail"


@pytest.mark.parametrize(
    ("begin", "is_swapped", "is_allowed"),
    [(60, True, True), (60, False, False), (24, True, False)],
    ids=["with", "without", "before-the-swap"],
)
def test_a_swap_changes_the_bounds_from_its_instant(
    tmp_path: Path, begin: float, is_swapped: bool, is_allowed: bool
) -> None:
    """13 replicas are in order under the wider policy, and not before it was in force."""
    content = quick_spike_run()
    add_a_replica(content, begin, begin + 4)
    if is_swapped:
        plan(content, SWAP)
        stamp(content, "swap_policy", 30, 31)
    folder = content.write(tmp_path)
    wider = content.policy_yaml.replace("maxReplicaCount: 12", "maxReplicaCount: 14")
    folder.write_text(folder.swapped_policy(0), wider)

    doubts = {doubt.code for doubt in measure_run(folder).doubts}

    assert ("above_the_ceiling" in doubts) is not is_allowed


def test_the_actions_are_in_the_measures(tmp_path: Path) -> None:
    """measures.json has stamps, targets and the end of each window."""
    content = quick_spike_run()
    plan(content, KILL)
    stamp(content, "kill_pod", 100, 101)

    (action,) = measure_run(content.write(tmp_path)).actions

    assert (action.kind, action.targets) == ("kill_pod", ("consumer-0",))
    assert (action.started_at, action.ended_at) == (at(100), at(101))
    assert action.hidden_until_at == at(161)
