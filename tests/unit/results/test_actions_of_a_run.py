"""Whole runs with actions, judged from their folders: with, without, outside, of another cause."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run

from lagbench.core.telemetry import records_of_programs as actions
from lagbench.core.telemetry import records_of_programs as producer
from lagbench.core.telemetry import records_of_recorder as recorder
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure_run import judge_run, measure_run

NS = 1_000_000_000
KILL = "{kind: kill_pod, at_seconds: 100}"
RESTART = "{kind: rolling_restart, at_seconds: 100}"
PAUSE = "{kind: pause_pod, at_seconds: 100, for_seconds: 30}"
RESTART_BROKER = "{kind: broker_restart, at_seconds: 100, for_seconds: 5}"
CUT = "{kind: broker_unreachable, at_seconds: 100, for_seconds: 30}"
OUTAGE = (100.5, 111.0)
ELSEWHERE = [("", 0, 0), (RESTART_BROKER.replace("100", "200"), 200, 212), (CUT, 100, 130)]
"""No broker_restart in the outage: none at all, one at another time, one of another kind."""
DOWN = "{kind: autoscaler_down, at_seconds: 100, for_seconds: 30}"
LATER = "{kind: kill_pod, at_seconds: 200}"
SWAP = "{kind: swap_policy, at_seconds: 30, policy: wider}"


def at(second: float) -> int:
    """Return an instant of the stream."""
    return EPOCH + round(second * NS)


def play(
    content: RunContent, action: str, begin: float, end: float, *, pods: int = 1, error: str = ""
) -> None:
    """Put an action into the scenario, and stamp it as played on some pods; empty: none."""
    if not action:
        return
    kind = action.removeprefix("{kind: ").split(",")[0]
    content.scenario_yaml += f"actions: [{action}]\n"
    content.records += [
        actions.ActionStarted(
            at=at(begin),
            source="actions-0",
            number=0,
            action=kind,
            targets=[f"consumer-{number}" for number in range(pods)],
            planned_at=None,
        ),
        actions.ActionEnded(at=at(end), source="actions-0", number=0, action=kind, error=error),
    ]


def add_members(content: RunContent, begin: float, end: float, *, members: int = 13) -> None:
    """Let the broker count more members than the 12 pods, for so long."""
    content.records = [
        msgspec.structs.replace(r, members=members)
        if isinstance(r, recorder.GroupSample) and at(begin) <= r.at <= at(end)
        else r
        for r in content.records
    ]


def add_a_replica(content: RunContent, begin: float, end: float) -> None:
    """Let 13 replicas be wanted, one more than the policy allows, for so long."""
    content.records = [
        msgspec.structs.replace(r, spec=13)
        if isinstance(r, recorder.ReplicaSample) and at(begin) <= r.at <= at(end)
        else r
        for r in content.records
    ]


def judged(content: RunContent, root: Path) -> Verdict:
    """Return the verdict."""
    return judge_run(content.write(root))


@pytest.mark.parametrize(("action", "end"), [(KILL, 101), (PAUSE, 130), (RESTART, 110)])
def test_an_action_on_pods_is_judged_through(tmp_path: Path, action: str, end: float) -> None:
    """The members that the broker still counts are its doing: the run passes."""
    content = quick_spike_run()
    play(content, action, 100, end)
    add_members(content, 100, 140)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(
    ("action", "begin", "end"),
    [("", 0, 0), (LATER, 200, 201), (DOWN, 100, 130)],
    ids=["without", "outside", "another-cause"],
)
def test_the_same_members_without_their_action_stay_undetermined(
    tmp_path: Path, action: str, begin: float, end: float
) -> None:
    """No action, one at another time, or one that does not cause this excuses nothing."""
    content = quick_spike_run()
    play(content, action, begin, end)
    add_members(content, 100, 140)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert any("13 members" in reason for reason in verdict.reasons)


def test_an_action_excuses_as_many_members_as_it_has_targets(tmp_path: Path) -> None:
    """One killed pod leaves one dead member; the second one too many is somebody else."""
    content = quick_spike_run()
    play(content, KILL, 100, 101)
    add_members(content, 100, 140, members=14)

    assert judged(content, tmp_path).status == "undetermined"


@pytest.mark.parametrize("stamps", ["none", "failed", "late"])
def test_a_planned_action_that_was_not_played_leaves_the_run_undetermined(
    tmp_path: Path, stamps: str
) -> None:
    """The run did not have the conditions of its plan, though all its SLOs hold."""
    content = quick_spike_run()
    begin = 120 if stamps == "late" else 100
    error = "no consumer pod is Ready" if stamps == "failed" else ""
    play(content, KILL, begin, begin + 1, error=error)
    if stamps == "none":
        del content.records[-2:]

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert verdict.invalid
    assert "actions.0 (kill_pod, at 100 s)" in verdict.reasons[0]
    assert not any(slo.status == "pass" for slo in verdict.slos)


def test_a_failed_slo_stays_failed_in_the_window_of_an_action(tmp_path: Path) -> None:
    """An action of a kind in the run excuses no SLO by its name."""
    content = quick_spike_run()
    content.scenario_yaml = content.scenario_yaml.replace("drain_seconds: 120", "drain_seconds: 60")
    play(content, KILL, 100, 101)

    verdict = judged(content, tmp_path)

    assert verdict.status == "fail"
    assert next(slo for slo in verdict.slos if slo.name == "drain_seconds").status == "fail"


def test_a_lost_message_is_judged_in_the_window_of_an_action(tmp_path: Path) -> None:
    """Loss is judged by identity always."""
    content = quick_spike_run()
    play(content, KILL, 100, 101)
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
    play(content, SWAP if is_swapped else "", 30, 31)
    folder = content.write(tmp_path)
    wider = content.policy_yaml.replace("maxReplicaCount: 12", "maxReplicaCount: 14")
    folder.write_text(folder.swapped_policy(0), wider)

    doubts = {doubt.code for doubt in measure_run(folder).doubts}

    assert ("above_the_ceiling" in doubts) is not is_allowed


def test_the_actions_are_in_the_measures(tmp_path: Path) -> None:
    """measures.json has stamps, targets and the end of each window."""
    content = quick_spike_run()
    play(content, KILL, 100, 101)

    (action,) = measure_run(content.write(tmp_path)).actions

    assert (action.kind, action.targets) == ("kill_pod", ("consumer-0",))
    assert (action.started_at, action.ended_at) == (at(100), at(101))
    assert action.hidden_until_at == at(161)


def hold_back(content: RunContent) -> None:
    """Let the producer's client hold all that it was given in the outage, by its own reports."""
    first, last = at(OUTAGE[0]), at(OUTAGE[1])
    acked = max(
        r.acked
        for r in content.records
        if isinstance(r, producer.ProducerProgress) and r.at <= first
    )
    content.records = [
        msgspec.structs.replace(r, acked=acked - 2000)
        if isinstance(r, producer.ProducerProgress) and first <= r.at <= last
        else r
        for r in content.records
    ]


def stop_reading(content: RunContent) -> None:
    """Let the recorder read neither the lag nor the group in the outage."""
    first, last = at(OUTAGE[0]), at(OUTAGE[1])
    read = (recorder.LagSample, recorder.GroupSample, recorder.GroupMembers)
    content.records = [
        r for r in content.records if not (isinstance(r, read) and first <= r.at <= last)
    ]
    content.tables["lag"] = [row for row in content.tables["lag"] if not first <= row[0] <= last]
    content.records += [
        recorder.ReadGap(at=at(second), source="recorder", what=what, reason="no broker")
        for second in range(101, 111)
        for what in ("lag", "group", "broker")
    ]


def raise_lag(content: RunContent, begin: float, end: float) -> None:
    """Let 20,000 messages more wait in partition 0, in the recorder's records and its table."""

    def raised(sample: recorder.LagSample) -> recorder.LagSample:
        (number, ends_at, committed), *others = sample.partitions
        lower = (number, ends_at, None if committed is None else max(committed - 20_000, 0))
        return msgspec.structs.replace(sample, partitions=[lower, *others])

    content.records = [
        raised(r) if isinstance(r, recorder.LagSample) and at(begin) <= r.at <= at(end) else r
        for r in content.records
    ]
    content.tables["lag"] = [
        (seen_at, number, ends_at, max(committed - 20_000, 0), lag + min(committed, 20_000))
        if number == 0 and at(begin) <= seen_at <= at(end)
        else (seen_at, number, ends_at, committed, lag)
        for seen_at, number, ends_at, committed, lag in content.tables["lag"]
    ]


def test_what_the_client_holds_in_a_restart_is_the_actions(tmp_path: Path) -> None:
    """Kafka took the load late because the plan says so: the run is valid, and passes."""
    content = quick_spike_run()
    play(content, RESTART_BROKER, 100, 112, pods=12)
    hold_back(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(("action", "begin", "end"), ELSEWHERE)
def test_the_same_backlog_without_its_action_is_invalid(
    tmp_path: Path, action: str, begin: float, end: float
) -> None:
    """No action, one at another time, or one that leaves the producer alone excuses nothing."""
    content = quick_spike_run()
    play(content, action, begin, end, pods=12)
    hold_back(content)

    verdict = judged(content, tmp_path)

    assert verdict.status != "pass"
    assert any("received the load late" in reason for reason in verdict.reasons)


def falls(verdict: Verdict) -> tuple[str, str]:
    """Return outcome and reason of the SLO on the fall of lag."""
    (found,) = (slo for slo in verdict.slos if slo.name == "lag_falls_at_full_parallelism")
    return found.status, found.reason


def test_what_a_restart_makes_unobservable_is_not_asked(tmp_path: Path) -> None:
    """Lag fell as far as it could be read, and the rest is the action's: all others are judged."""
    content = quick_spike_run()
    play(content, RESTART_BROKER, 100, 112, pods=12)
    stop_reading(content)
    hold_back(content)

    verdict = judged(content, tmp_path)

    status, reason = falls(verdict)
    assert verdict.status == "pass", verdict.reasons
    assert status == "not_judged"
    assert "broker_restart (actions.0)" in reason
    assert sum(slo.status == "not_judged" for slo in verdict.slos) == 5  # four without a limit


@pytest.mark.parametrize(("action", "begin", "end"), ELSEWHERE)
def test_the_same_gap_without_its_action_is_undetermined(
    tmp_path: Path, action: str, begin: float, end: float
) -> None:
    """The recorder reaches the broker while the consumers do not: its gaps are its own."""
    content = quick_spike_run()
    play(content, action, begin, end, pods=12)
    stop_reading(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert falls(verdict)[0] == "undetermined"


def test_lag_that_rises_beside_a_restart_fails(tmp_path: Path) -> None:
    """The action excuses nothing that was seen outside of it."""
    content = quick_spike_run()
    play(content, RESTART_BROKER, 100, 112, pods=12)
    stop_reading(content)
    raise_lag(content, 88, 92)

    status, reason = falls(judged(content, tmp_path))

    assert status == "fail", reason


@pytest.mark.parametrize(
    ("action", "outcome"),
    [(RESTART_BROKER, "not_judged"), ("", "undetermined"), (CUT, "undetermined")],
)
def test_what_the_client_held_back_arrives_at_once_and_is_no_rise(
    tmp_path: Path, action: str, outcome: str
) -> None:
    """It is the restart's alone: without it the load is invalid, and nothing is judged."""
    content = quick_spike_run()
    play(content, action, 100, 130 if action == CUT else 112, pods=12)
    hold_back(content)
    raise_lag(content, 104, 110)

    assert falls(judged(content, tmp_path))[0] == outcome
