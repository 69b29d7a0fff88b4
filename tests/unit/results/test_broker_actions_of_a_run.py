"""Whole runs with actions on the broker, judged from their folders: with, without, outside."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run

from lagbench.core.telemetry import records as t
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.measure import judge_run

NS = 1_000_000_000
RESTART = "{kind: broker_restart, at_seconds: 100, for_seconds: 5}"
CUT = "{kind: broker_unreachable, at_seconds: 100, for_seconds: 30}"
OUTAGE = (100.5, 111.0)


def at(second: float) -> int:
    """Return an instant of the stream."""
    return EPOCH + round(second * NS)


def play(content: RunContent, action: str, begin: float, end: float) -> None:
    """Plan an action and stamp it."""
    kind = action.removeprefix("{kind: ").split(",")[0]
    content.scenario_yaml += f"actions: [{action}]\n"
    content.records += [
        t.ActionStarted(
            at=at(begin),
            source="actions-0",
            number=0,
            action=kind,
            targets=[f"consumer-{number}" for number in range(12)],
            planned_at=None,
        ),
        t.ActionEnded(at=at(end), source="actions-0", number=0, action=kind),
    ]


def hold_back(content: RunContent) -> None:
    """Let the producer's client hold all that it was given in the outage, by its own reports."""
    first, last = at(OUTAGE[0]), at(OUTAGE[1])
    acked = max(
        r.acked for r in content.records if isinstance(r, t.ProducerProgress) and r.at <= first
    )
    content.records = [
        msgspec.structs.replace(r, acked=acked - 2000)
        if isinstance(r, t.ProducerProgress) and first <= r.at <= last
        else r
        for r in content.records
    ]


def stop_reading(content: RunContent) -> None:
    """Let the recorder read neither the lag nor the group in the outage."""
    first, last = at(OUTAGE[0]), at(OUTAGE[1])
    read = (t.LagSample, t.GroupSample, t.GroupMembers)
    content.records = [
        r for r in content.records if not (isinstance(r, read) and first <= r.at <= last)
    ]
    content.tables["lag"] = [row for row in content.tables["lag"] if not first <= row[0] <= last]
    content.records += [
        t.ReadGap(at=at(second), source="recorder", what=what, reason="no broker")
        for second in range(101, 111)
        for what in ("lag", "group", "broker")
    ]


def judged(content: RunContent, root: Path) -> Verdict:
    """Return the verdict."""
    return judge_run(content.write(root))


def test_what_the_client_holds_in_a_restart_is_the_actions(tmp_path: Path) -> None:
    """Kafka took the load late because the plan says so: the run is valid, and passes."""
    content = quick_spike_run()
    play(content, RESTART, 100, 112)
    hold_back(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "pass", verdict.reasons


@pytest.mark.parametrize(
    ("action", "begin", "end"),
    [("", 0, 0), (RESTART.replace("100", "200"), 200, 212), (CUT, 100, 130)],
    ids=["without", "outside", "another-cause"],
)
def test_the_same_backlog_without_its_action_is_invalid(
    tmp_path: Path, action: str, begin: float, end: float
) -> None:
    """No action, one at another time, or one that leaves the producer alone excuses nothing."""
    content = quick_spike_run()
    if action:
        play(content, action, begin, end)
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
    play(content, RESTART, 100, 112)
    stop_reading(content)
    hold_back(content)

    verdict = judged(content, tmp_path)

    status, reason = falls(verdict)
    assert verdict.status == "pass", verdict.reasons
    assert status == "not_judged"
    assert "broker_restart (actions.0)" in reason
    assert sum(slo.status == "not_judged" for slo in verdict.slos) == 5  # four without a limit


@pytest.mark.parametrize(
    ("action", "begin", "end"),
    [("", 0, 0), (RESTART.replace("100", "200"), 200, 212), (CUT, 100, 130)],
    ids=["without", "outside", "another-cause"],
)
def test_the_same_gap_without_its_action_is_undetermined(
    tmp_path: Path, action: str, begin: float, end: float
) -> None:
    """The recorder reaches the broker while the consumers do not: its gaps are its own."""
    content = quick_spike_run()
    if action:
        play(content, action, begin, end)
    stop_reading(content)

    verdict = judged(content, tmp_path)

    assert verdict.status == "undetermined"
    assert falls(verdict)[0] == "undetermined"


def test_lag_that_rises_beside_a_restart_fails(tmp_path: Path) -> None:
    """The action excuses nothing that was seen outside of it."""
    content = quick_spike_run()
    play(content, RESTART, 100, 112)
    stop_reading(content)
    raise_lag(content, 88, 92)

    status, reason = falls(judged(content, tmp_path))

    assert status == "fail", reason


@pytest.mark.parametrize(
    ("action", "outcome"), [(RESTART, "not_judged"), ("", "undetermined"), (CUT, "undetermined")]
)
def test_what_the_client_held_back_arrives_at_once_and_is_no_rise(
    tmp_path: Path, action: str, outcome: str
) -> None:
    """It is the restart's alone: without it the load is invalid, and nothing is judged."""
    content = quick_spike_run()
    if action:
        play(content, action, 100, 130 if action == CUT else 112)
    hold_back(content)
    raise_lag(content, 104, 110)

    assert falls(judged(content, tmp_path))[0] == outcome


def raise_lag(content: RunContent, begin: float, end: float) -> None:
    """Let 20,000 messages more wait in partition 0, in the recorder's records and its table."""

    def raised(sample: t.LagSample) -> t.LagSample:
        (number, ends_at, committed), *others = sample.partitions
        lower = (number, ends_at, None if committed is None else max(committed - 20_000, 0))
        return msgspec.structs.replace(sample, partitions=[lower, *others])

    content.records = [
        raised(r) if isinstance(r, t.LagSample) and at(begin) <= r.at <= at(end) else r
        for r in content.records
    ]
    content.tables["lag"] = [
        (seen_at, number, ends_at, max(committed - 20_000, 0), lag + min(committed, 20_000))
        if number == 0 and at(begin) <= seen_at <= at(end)
        else (seen_at, number, ends_at, committed, lag)
        for seen_at, number, ends_at, committed, lag in content.tables["lag"]
    ]
