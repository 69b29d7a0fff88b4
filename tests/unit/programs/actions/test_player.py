"""Actions are played once, stamped, and undone."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from kubernetes import config
from pydantic import TypeAdapter
from tests.fakes.fake_kube import FakeKube
from tests.fakes.kubeconfig import write_kubeconfig

from lagbench.core.scenario.actions import (
    Action,
    AutoscalerDown,
    BrokerUnreachable,
    KillPod,
    LagScalerDown,
    SwapPolicy,
)
from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION
from lagbench.core.telemetry.records_of_programs import ActionEnded, ActionStarted, Record
from lagbench.errors import NotReady
from lagbench.programs.actions.__main__ import api_client
from lagbench.programs.actions.broker_actions import performer
from lagbench.programs.actions.performer import Performer, Stage
from lagbench.programs.actions.player import Player, StreamState, send_to_both
from lagbench.programs.actions.player_settings import PlayerOptions, parse_options

KILL = KillPod(kind="kill_pod", at_seconds=0)

DOWN = AutoscalerDown(kind="autoscaler_down", at_seconds=0, for_seconds=3600)


class Scripted(Performer[Any]):
    """An action that notes what is asked of it, and fails where it is told to."""

    def __init__(self, action: Any, fails_in: str = "") -> None:
        """Fail in the method of this name."""
        super().__init__(0, action, None)  # type: ignore[arg-type]
        self.calls: list[str] = []
        self.fails_in = fails_in
        self.is_held = threading.Event()

    def choose(self) -> list[str]:
        """Choose one target."""
        self._note("choose")
        return ["pod-a"]

    def act(self) -> None:
        """Act."""
        self._note("act")

    def hold(self, stopping: threading.Event) -> None:
        """Hold as the kind does."""
        self._note("hold")
        self.is_held.set()
        super().hold(stopping)

    def undo(self) -> None:
        """Undo."""
        self._note("undo")

    def _note(self, what: str) -> None:
        self.calls.append(what)
        if what == self.fails_in:
            raise NotReady(f"{what} does not work")


def due_now() -> StreamState:
    """Return a stream that started long ago."""
    state = StreamState(lambda: 10, drained_records=0, drained_after_seconds=0)
    state._started_at = 0
    return state


def player(sent: list[Record], state: StreamState | None = None) -> Player:
    """Return a player that sends into ``sent``."""
    return Player(state or due_now(), sent.append, lambda: 10, "actions-0")


def played(scripted: Scripted) -> tuple[ActionStarted, ActionEnded]:
    """Play one action to its end and return its two stamps."""
    sent: list[Record] = []
    own = player(sent)
    own.start([scripted])
    own._threads[0].join(10)
    started, ended = sent
    assert isinstance(started, ActionStarted)
    assert isinstance(ended, ActionEnded)
    assert own.is_done()
    return started, ended


def test_an_action_is_stamped_before_and_after() -> None:
    """Targets in the first stamp, no error in the second; undo comes last."""
    scripted = Scripted(KILL)

    started, ended = played(scripted)

    assert (started.targets, started.planned_at, started.action) == (["pod-a"], 0, "kill_pod")
    assert (ended.error, ended.number) == ("", 0)
    assert scripted.calls == ["choose", "act", "hold", "undo"]


@pytest.mark.parametrize("fails_in", ["choose", "act", "hold", "undo"])
def test_an_action_that_fails_says_so_and_is_undone(fails_in: str) -> None:
    """Both stamps are sent, the end with the error; without a target nothing is to be undone."""
    scripted = Scripted(KILL, fails_in)

    _, ended = played(scripted)

    assert f"{fails_in} does not work" in ended.error
    assert ("undo" in scripted.calls) is (fails_in != "choose")


def test_a_stop_undoes_what_lasts_and_begins_nothing_more() -> None:
    """SIGTERM in an action that lasts an hour: undone, and stamped as ended too early."""
    sent: list[Record] = []
    lasting, waiting = Scripted(DOWN), Scripted(KillPod(kind="kill_pod", at_seconds=3600))
    own = player(sent)
    own.start([lasting, waiting])
    assert lasting.is_held.wait(10)

    assert own.stop(10)

    assert lasting.calls[-1] == "undo"
    assert waiting.calls == []
    assert [type(record) for record in sent] == [ActionStarted, ActionEnded]
    assert isinstance(sent[1], ActionEnded)
    assert sent[1].error


def options(**environment: str) -> PlayerOptions:
    """Return the player's options for a run."""
    variables = {"KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"} | environment
    return parse_options(["--run-id=r-1", "--seed=3", "--actions=[]"], variables)


def pod(name: str, ordinal: int, *, is_ready: bool = True) -> dict[str, Any]:
    """Return a consumer pod of the run."""
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": {"app": "consumer"},
            "annotations": {POD_ORDINAL_ANNOTATION: str(ordinal)},
        },
        "status": {"conditions": [{"type": "Ready", "status": str(is_ready)}]},
    }


class PodsKube(FakeKube):
    """A cluster with pods whose labels are not looked at."""

    def list(self, kind: str, *, label_selector: str = "") -> list[dict[str, Any]]:
        """Return all of a kind."""
        return super().list(kind)


def stage_of(*pods: dict[str, Any]) -> Stage:
    """Return a stage with these pods."""
    kube = PodsKube()
    kube.objects = {("Pod", one["metadata"]["name"]): one for one in pods}
    return Stage(kube, options())  # type: ignore[arg-type]


def test_pods_are_drawn_among_the_ready_ones_by_creation() -> None:
    """Names are random: the order of creation makes the same seed draw the same pod."""
    one = stage_of(pod("x", 1), pod("b", 0), pod("c", 2, is_ready=False))
    other = stage_of(pod("k", 0), pod("a", 1))

    first, second = (performer(0, KILL, stage).draw_pods(1) for stage in (one, other))

    assert [one.ready_pods(), other.ready_pods()] == [["b", "x"], ["k", "a"]]
    assert one.ready_pods().index(first[0]) == other.ready_pods().index(second[0])
    with pytest.raises(NotReady):
        performer(0, KILL, stage_of()).choose()


@pytest.mark.parametrize(
    "action",
    [
        LagScalerDown(kind="lag_scaler_down", at_seconds=0, for_seconds=1),
        SwapPolicy(kind="swap_policy", at_seconds=0, policy="x"),
        BrokerUnreachable(kind="broker_unreachable", at_seconds=1, for_seconds=1),
    ],
    ids=["lag-scaler", "policy", "proxy"],
)
def test_a_target_that_is_missing_is_named(action: Any) -> None:
    """Nothing is done to a run that lacks the target."""
    with pytest.raises(NotReady, match=r"lagbench-lag-scaler|policy x|broker-proxy"):
        performer(0, action, stage_of()).choose()


ACTIONS = TypeAdapter(tuple[Action, ...]).validate_python(
    [
        {"kind": "kill_pod", "at_seconds": 1},
        {"kind": "broker_restart", "at_seconds": 9, "for_seconds": 1},
    ]
)


def test_the_second_group_hears_of_actions_on_all_groups_only() -> None:
    """A killed pod is the first group's; a broker's restart has another number in the second."""
    first: list[Record] = []
    second: list[Record] = []
    send = send_to_both(first.append, second.append, ACTIONS)
    records = [
        ActionStarted(
            at=1, source="a", number=number, action=action.kind, targets=[], planned_at=None
        )
        for number, action in enumerate(ACTIONS)
    ]
    ended = ActionEnded(at=2, source="a", number=1, action="broker_restart")

    for record in (*records, ended):
        send(record)

    assert first == [*records, ended]
    assert [(type(r), r.number, r.action) for r in second] == [  # type: ignore[attr-defined]
        (ActionStarted, 0, "broker_restart"),
        (ActionEnded, 0, "broker_restart"),
    ]


def test_one_failed_call_to_a_cluster_ends_no_action(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a cluster's pod calls are repeated on rejected connections and on 500 and 503."""
    monkeypatch.setattr(config, "load_incluster_config", lambda **_: None)

    retries = api_client({}).configuration.retries

    assert retries.connect > 1
    assert {500, 503} <= set(retries.status_forcelist)


def test_localkube_gets_each_call_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that is sent twice would kill twice."""
    path = write_kubeconfig(tmp_path / "config")
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))

    assert api_client({"KUBECONFIG": str(path)}).configuration.retries == 0
