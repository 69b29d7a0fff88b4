"""Whole runs with actions, judged from their folders: with, without, outside, of another cause."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.fakes.measured_run import result
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run

from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    ProducerProgress,
)
from lagbench.core.telemetry.records_of_recorder import (
    GroupMembers,
    GroupSample,
    LagSample,
    ReadGap,
    ReplicaSample,
)
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure_run import judge_run, measure_run

Played = tuple[str, float, float]
"""An action of the scenario, and its begin and end; the empty text: none."""
NONE: Played = ("", 0, 0)
KILL: Played = ("{kind: kill_pod, at_seconds: 100}", 100, 101)
PAUSE: Played = ("{kind: pause_pod, at_seconds: 100, for_seconds: 30}", 100, 130)
ROLL: Played = ("{kind: rolling_restart, at_seconds: 100}", 100, 110)
CUT: Played = ("{kind: broker_unreachable, at_seconds: 100, for_seconds: 30}", 100, 130)
SWAP: Played = ("{kind: swap_policy, at_seconds: 30, policy: wider}", 30, 31)
FALLS, DRAIN = "lag_falls_at_full_parallelism", "drain_seconds"
OUTAGE = (100.5, 111.0)


def broker_restart(at_seconds: int, until: float) -> Played:
    """Return a restart of the broker."""
    return (
        f"{{kind: broker_restart, at_seconds: {at_seconds}, for_seconds: 5}}",
        at_seconds,
        until,
    )


RESTART = broker_restart(100, 112)


def at(second: float) -> int:
    """Return an instant of the stream."""
    return EPOCH + round(second * 1_000_000_000)


def play(content: RunContent, played: Played, *, pods: int = 1) -> None:
    """Put an action into the scenario, and stamp it as played on some pods."""
    action, begin, end = played
    if not action:
        return
    kind = action.removeprefix("{kind: ").split(",")[0]
    content.scenario_yaml += f"actions: [{action}]\n"
    of: dict[str, Any] = {"source": "actions-0", "number": 0, "action": kind}
    targets = [f"consumer-{number}" for number in range(pods)]
    content.records += [
        ActionStarted(at=at(begin), targets=targets, planned_at=None, **of),
        ActionEnded(at=at(end), error="", **of),
    ]


def change(
    content: RunContent, kind: type, begin: float, end: float, edit: Callable[[Any], Any]
) -> None:
    """Pass the records of a kind between two seconds to ``edit``; None: left out."""
    changed = [
        edit(r) if isinstance(r, kind) and at(begin) <= r.at <= at(end) else r
        for r in content.records
    ]
    content.records = [record for record in changed if record is not None]


def add_members(content: RunContent, members: int = 13) -> None:
    """Let the broker count more members than the 12 pods, for 40 s."""
    change(content, GroupSample, 100, 140, lambda r: replace(r, members=members))


def judged(content: RunContent, root: Path) -> Verdict:
    """Return the verdict."""
    return judge_run(content.write(root))


@pytest.mark.parametrize("played", [KILL, PAUSE, ROLL])
def test_an_action_on_pods_is_judged_through(tmp_path: Path, played: Played) -> None:
    """The members that the broker still counts are its doing: the run passes."""
    content = quick_spike_run()
    play(content, played)
    add_members(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(
    ("played", "members"),
    [(NONE, 13), (KILL, 14)],
    ids=["without", "one more than its target"],
)
def test_the_same_members_without_their_action_stay_undetermined(
    tmp_path: Path, played: Played, members: int
) -> None:
    """Without the action nothing is excused, and with it no more than its target."""
    content = quick_spike_run()
    play(content, played)
    add_members(content, members)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert any(f"{members} members" in reason for reason in verdict.reasons)


def test_a_planned_action_that_was_not_played_leaves_the_run_undetermined(tmp_path: Path) -> None:
    """The run did not have the conditions of its plan, though all its SLOs hold."""
    content = quick_spike_run()
    play(content, KILL)
    del content.records[-2:]

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert verdict.invalid
    assert "actions.0 (kill_pod, at 100 s)" in verdict.reasons[0]
    assert not any(slo.status == "pass" for slo in verdict.slos)


def test_what_failed_stays_failed_in_the_window_of_an_action(tmp_path: Path) -> None:
    """An action of a kind in the run excuses no SLO by its name, and loss is by identity."""
    content = quick_spike_run()
    content.scenario_yaml = content.scenario_yaml.replace("drain_seconds: 120", "drain_seconds: 60")
    play(content, KILL)
    for name, more in (("lost", 1), ("processed_distinct", -1), ("processed_records", -1)):
        content.accounting[name] += more

    verdict = judged(content, tmp_path)

    assert verdict.status == "fail"
    assert [result(verdict, name).status for name in (DRAIN, "lost")] == ["fail", "fail"]


@pytest.mark.parametrize(
    ("begin", "played", "is_allowed"),
    [(60, SWAP, True), (60, NONE, False), (24, SWAP, False)],
    ids=["with", "without", "before-the-swap"],
)
def test_a_swap_changes_the_bounds_from_its_instant(
    tmp_path: Path, begin: float, played: Played, *, is_allowed: bool
) -> None:
    """13 replicas are in order under the wider policy, and not before it was in force."""
    content = quick_spike_run()
    change(content, ReplicaSample, begin, begin + 4, lambda r: replace(r, spec=13))
    play(content, played)
    folder = content.write(tmp_path)
    wider = content.policy_yaml.replace("maxReplicaCount: 12", "maxReplicaCount: 14")
    folder.write_text(folder.swapped_policy(0), wider)

    doubts = {doubt.code for doubt in measure_run(folder).doubts}

    assert ("above_the_ceiling" in doubts) is not is_allowed


def hold_back(content: RunContent) -> None:
    """Let the producer's client hold all that it was given in the outage, by its own reports."""
    reports = [r for r in content.records if isinstance(r, ProducerProgress)]
    acked = max(r.acked for r in reports if r.at <= at(OUTAGE[0]))
    change(content, ProducerProgress, *OUTAGE, lambda r: replace(r, acked=acked - 2000))


def drop_lag(content: RunContent, begin: float, end: float) -> None:
    """Let the lag not be read for so long."""
    change(content, LagSample, begin, end, lambda _: None)
    rows = content.tables["lag"]
    content.tables["lag"] = [row for row in rows if not at(begin) <= row[0] <= at(end)]


def stop_reading(content: RunContent) -> None:
    """Let the recorder read neither the lag nor the group in the outage."""
    drop_lag(content, *OUTAGE)
    for kind in (GroupSample, GroupMembers):
        change(content, kind, *OUTAGE, lambda _: None)
    content.records += [
        ReadGap(at=at(second), source="recorder", what=what, reason="no broker")
        for second in range(101, 111)
        for what in ("lag", "group", "broker")
    ]


def raise_lag(content: RunContent, begin: float, end: float) -> None:
    """Let 20,000 messages more wait in partition 0, in the recorder's records and its table."""

    def raised(sample: LagSample) -> LagSample:
        (number, ends_at, committed), *others = sample.partitions
        lower = (number, ends_at, None if committed is None else max(committed - 20_000, 0))
        return replace(sample, partitions=[lower, *others])

    change(content, LagSample, begin, end, raised)
    content.tables["lag"] = [
        (seen_at, number, ends_at, max(committed - 20_000, 0), lag + min(committed, 20_000))
        if number == 0 and at(begin) <= seen_at <= at(end)
        else (seen_at, number, ends_at, committed, lag)
        for seen_at, number, ends_at, committed, lag in content.tables["lag"]
    ]


@pytest.mark.parametrize("played", [RESTART, NONE])
def test_what_the_client_holds_in_a_restart_is_the_actions(tmp_path: Path, played: Played) -> None:
    """Kafka took the load late because the plan says so; without the action it is invalid."""
    content = quick_spike_run()
    play(content, played, pods=12)
    hold_back(content)

    verdict = judged(content, tmp_path)

    assert (verdict.status == "pass") is (played == RESTART), verdict.reasons
    is_late = any("received the load late" in reason for reason in verdict.reasons)
    assert is_late is (played != RESTART)


def test_what_a_restart_makes_unobservable_is_not_asked(tmp_path: Path) -> None:
    """Lag fell as far as it could be read, and the rest is the action's: all others are judged."""
    content = quick_spike_run()
    play(content, RESTART, pods=12)
    stop_reading(content)
    hold_back(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons
    assert result(verdict, FALLS).status == "not_judged"
    assert "broker_restart (actions.0)" in result(verdict, FALLS).reason
    assert sum(slo.status == "not_judged" for slo in verdict.slos) == 5  # four without a limit


def test_the_same_gap_without_its_action_is_undetermined(tmp_path: Path) -> None:
    """The recorder reaches the broker while the consumers do not: its gaps are its own."""
    content = quick_spike_run()
    stop_reading(content)

    verdict = judged(content, tmp_path)

    assert (verdict.status, result(verdict, FALLS).status) == ("undetermined", "undetermined")


def test_lag_that_rises_beside_a_restart_fails(tmp_path: Path) -> None:
    """The action excuses nothing that was seen outside of it."""
    content = quick_spike_run()
    play(content, RESTART, pods=12)
    stop_reading(content)
    raise_lag(content, 88, 92)

    found = result(judged(content, tmp_path), FALLS)

    assert found.status == "fail", found.reason


@pytest.mark.parametrize(
    ("played", "outcome"), [(RESTART, "not_judged"), (NONE, "undetermined"), (CUT, "undetermined")]
)
def test_what_the_client_held_back_arrives_at_once_and_is_no_rise(
    tmp_path: Path, played: Played, outcome: str
) -> None:
    """It is the restart's alone: without it the load is invalid, and nothing is judged."""
    content = quick_spike_run()
    play(content, played, pods=12)
    hold_back(content)
    raise_lag(content, 104, 110)

    assert result(judged(content, tmp_path), FALLS).status == outcome


AT_THE_DRAIN = broker_restart(161, 174)


@pytest.mark.parametrize(
    ("played", "limit", "gaps", "drain", "falls"),
    [
        # The lag fell below its threshold while the broker was away.
        (AT_THE_DRAIN, 90, [(162, 176)], "not_judged", "not_judged"),
        (NONE, 90, [(162, 176)], "undetermined", "undetermined"),
        # Before the gap the limit had passed, or after it there was still time.
        (AT_THE_DRAIN, 70, [(162, 176)], "fail", None),
        (AT_THE_DRAIN, 120, [(162, 176)], "pass", None),
        # Each gap needs an action: one before it is nobody's plan.
        (AT_THE_DRAIN, 90, [(162, 176), (120, 127)], "not_judged", "undetermined"),
    ],
    ids=["with", "without", "missed", "met", "a gap beside it"],
)
def test_a_drain_in_an_outage_of_the_plan_is_not_asked(  # noqa: PLR0917 - a table
    tmp_path: Path,
    played: Played,
    limit: int,
    gaps: list[tuple[float, float]],
    drain: str,
    falls: str | None,
) -> None:
    """The lag is not read around its drain (170 s): the reason names the action."""
    content = quick_spike_run()
    content.scenario_yaml = content.scenario_yaml.replace(
        "drain_seconds: 120", f"drain_seconds: {limit}"
    )
    for gap in gaps:
        drop_lag(content, *gap)
    play(content, played)

    verdict = judged(content, tmp_path)

    assert result(verdict, DRAIN).status == drain
    assert falls in (None, result(verdict, FALLS).status)
    if drain == "not_judged":
        assert "broker_restart (actions.0)" in result(verdict, DRAIN).reason
