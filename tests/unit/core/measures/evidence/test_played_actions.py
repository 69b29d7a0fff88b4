"""What planned actions excuse: by time, by cause, by target, and never by a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from tests.fakes.telemetry import SECOND, of

from lagbench.catalog.catalog import load_scenario
from lagbench.core.measures.doubts.doubts_of_group import empty_group
from lagbench.core.measures.doubts.doubts_of_load import unplayed_actions
from lagbench.core.measures.doubts.doubts_of_policy import Window
from lagbench.core.measures.evidence.lag_readings import RateSeries
from lagbench.core.measures.evidence.played_actions import (
    HIDES,
    Hidden,
    PlayedAction,
    balancers_at,
    played_actions,
)
from lagbench.core.measures.rebalance_episodes import EpisodeSpan, caused_by_action
from lagbench.core.scenario.actions import (
    ActionBase,
    ActionKind,
    BrokerRestart,
    BrokerUnreachable,
    KillPod,
    RollingRestart,
    SlowDownstream,
)
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    Record,
)
from lagbench.core.telemetry.records_of_recorder import GroupSample

NS = SECOND
KILL = KillPod(kind="kill_pod", at_seconds=10)


def started(second: float, *, number: int = 0, action: str = "kill_pod") -> ActionStarted:
    """Stamp the begin of an action on pod-a."""
    return of(ActionStarted, second, "actions", number=number, action=action, targets=["pod-a"])


def ended(
    second: float, *, number: int = 0, action: str = "kill_pod", error: str = ""
) -> ActionEnded:
    """Stamp the end of an action."""
    return of(ActionEnded, second, "actions", number=number, action=action, error=error)


def play(records: Sequence[Record], *planned: ActionBase) -> list[str]:
    """Return the doubts of the actions; the stream began at 0."""
    found = played_actions(records, planned, stream_started_at=0)
    scenario = SimpleNamespace(actions=planned)
    run = SimpleNamespace(actions=found, scenario=scenario, records=records)
    return list(unplayed_actions(run, None))


def window(kind: ActionKind, from_second: float, to_second: float) -> Hidden:
    """Return an action on pod-a with a window of these seconds."""
    action = PlayedAction(
        number=0,
        kind=kind,
        targets=("pod-a",),
        started_at=round(from_second * NS),
        ended_at=round(from_second * NS),
        hidden_until_at=round(to_second * NS),
    )
    return Hidden((action,))


def test_an_action_as_planned_leaves_no_doubt() -> None:
    """Its window ends with its own bound for the recovery."""
    (action,) = played_actions([started(10.2), ended(10.6)], [KILL], stream_started_at=0)

    assert not action.problem
    assert action.hidden_until_at == round((10.6 + HIDES["kill_pod"].recovery_seconds) * NS)
    assert play([started(10.2), ended(10.6)], KILL) == []
    (open_end,) = played_actions([started(10)], [KILL], stream_started_at=0)
    assert Hidden((open_end,)).by("members", 10 * NS) is None  # without both stamps


@pytest.mark.parametrize(
    ("records", "named"),
    [
        ([], "not played"),
        ([started(10)], "never ended"),
        ([started(10), ended(11, error="refused")], "refused"),
        ([started(10), ended(11), started(12), ended(13)], "2 times"),
        ([started(10, action="pause_pod"), ended(11)], "another kind"),
        ([started(16), ended(17)], "+6.0 s"),
        ([started(10), ended(9)], "before it began"),
        ([started(10), ended(11), started(12, number=7)], "not plan"),
    ],
)
def test_an_action_that_was_not_played_as_planned_is_a_doubt(
    records: list[Record], named: str
) -> None:
    """The run did not have the conditions of its plan."""
    (doubt,) = play(records, KILL)

    assert named in doubt


def test_a_window_is_of_its_time_its_cause_and_its_targets() -> None:
    """Outside of it, for another disturbance, or of another pod nothing is hidden."""
    hidden = window("kill_pod", 10, 20)

    assert hidden.by("members", 15 * NS)
    assert hidden.by("members", 12 * NS, 18 * NS)
    assert hidden.by("rebalance", 15 * NS, pods={"pod-a"})
    assert hidden.by("members", 15 * NS, count=1)
    assert not hidden.by("members", 9 * NS)
    assert not hidden.by("members", 15 * NS, 21 * NS)
    assert not hidden.by("backlog", 15 * NS)
    assert not hidden.by("members", 15 * NS, count=2)
    assert not hidden.by("rebalance", 15 * NS, pods={"pod-a", "pod-b"})
    assert not hidden.reading("lag", 12 * NS, 18 * NS)
    restart = window("broker_restart", 10, 20)
    assert restart.reading("group", 9 * NS, 20 * NS)  # the last reading is from before the action
    assert not restart.reading("group", 6 * NS, 20 * NS)
    assert not restart.reading("replicas", 12 * NS, 18 * NS)


def span(second: float, *died: str) -> EpisodeSpan:
    """Return an episode in which pods died."""
    at = round(second * NS)
    return EpisodeSpan(
        started_at=at,
        ended_at=at,
        joined=(),
        left=(),
        died=died,
        members_before=2,
        members_after=1,
        partitions_moved=2,
        unowned=(),
        last_at=at,
        settled_at=at,
    )


@pytest.mark.parametrize(
    ("hidden", "of", "trigger"),
    [
        (lambda: window("kill_pod", 10, 20), span(12, "pod-a"), "action"),
        (Hidden, span(12, "pod-a"), "pod_death"),
        (lambda: window("kill_pod", 10, 20), span(25, "pod-a"), "pod_death"),
        (lambda: window("kill_pod", 10, 20), span(12, "pod-b"), "pod_death"),
        (lambda: window("autoscaler_down", 10, 20), span(12, "pod-a"), "pod_death"),
    ],
    ids=["with", "without", "outside", "another-pod", "another-cause"],
)
def test_a_rebalance_by_an_action_has_its_name(
    hidden: Callable[[], Hidden], of: EpisodeSpan, trigger: str
) -> None:
    """Only in the window, and only for the pods of the action."""
    found, text = caused_by_action(of, "pod_death", "pod died", hidden())

    assert found == trigger
    assert ("kill_pod (actions.0)" in text) is (trigger == "action")


def test_a_scale_step_stays_a_scale_step() -> None:
    """Its cost is judged, whatever action happened beside it."""
    found, _ = caused_by_action(span(12, "pod-a"), "scale_up", "2 to 4", window("kill_pod", 10, 20))

    assert found == "scale_up"


def test_a_pod_has_the_balancer_that_a_restart_brings() -> None:
    """Before it the scenario's, while it lasts either, after it the new one."""
    restart = RollingRestart(kind="rolling_restart", at_seconds=10, balancer="consumer")
    scenario = load_scenario("lab_restart").model_copy(update={"actions": (restart,)})
    records = [
        started(10, action="rolling_restart"),
        ended(20, action="rolling_restart"),
    ]
    played = played_actions(records, [restart], stream_started_at=0)

    def at(second: float) -> frozenset[str]:
        return frozenset(balancers_at(round(second * NS), scenario, played))

    assert at(9) == {"cooperative-sticky"}
    assert at(15) == {"cooperative-sticky", "consumer"}
    assert at(21) == {"consumer"}


ACTIONS = {
    "broker_restart": BrokerRestart(kind="broker_restart", at_seconds=100, for_seconds=10),
    "broker_unreachable": BrokerUnreachable(
        kind="broker_unreachable", at_seconds=100, for_seconds=10
    ),
    "slow_downstream": SlowDownstream(
        kind="slow_downstream", at_seconds=100, for_seconds=10, factor=3
    ),
}


def hidden_by(kind: str) -> Hidden:
    """Return what an action hides that was played from second 100 to 115."""
    stamps = [started(100, action=kind), ended(115, action=kind)]
    return Hidden(played_actions(stamps, [ACTIONS[kind]], stream_started_at=0))


@pytest.mark.parametrize(
    ("kind", "from_second", "is_excused"),
    [
        ("broker_restart", 101, True),
        ("broker_unreachable", 101, True),
        ("slow_downstream", 101, False),
        ("broker_unreachable", 200, False),
    ],
)
def test_a_group_whose_members_were_cut_off_is_no_contradiction(
    kind: str, from_second: int, is_excused: bool
) -> None:
    """Pods finish what they had fetched after the broker has removed them."""
    rate = RateSeries(0, np.full(3000, 200), np.full(3000, 200))
    records = [
        of(GroupSample, s, members=0 if from_second <= s < from_second + 30 else 4)
        for s in range(1, 300)
    ]

    def doubts(hidden: Hidden) -> list[str]:
        scenario = SimpleNamespace(consumer=SimpleNamespace(kind="stand-in"))
        run = SimpleNamespace(records=records, rate=rate, scenario=scenario, hidden=hidden)
        return list(empty_group(run, Window(0, 300 * SECOND, ())))

    assert doubts(Hidden())
    assert (not doubts(hidden_by(kind))) is is_excused
