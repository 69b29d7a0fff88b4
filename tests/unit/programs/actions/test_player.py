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
from tests.fakes.telemetry import of
from tests.unit.core.cluster.consumer_pod import options_of

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.core.scenario.actions import (
    Action,
    AutoscalerDown,
    BrokerUnreachable,
    KillPod,
    LagScalerDown,
    RollingRestart,
    SwapPolicy,
)
from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION
from lagbench.core.telemetry.records_of_programs import (
    ActionEnded,
    ActionStarted,
    Record,
    StreamFinished,
    StreamStarted,
)
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.errors import NotReady
from lagbench.programs.actions.__main__ import api_client
from lagbench.programs.actions.performers import performer, restart_changes
from lagbench.programs.actions.player import (
    Performer,
    Player,
    PlayerOptions,
    Stage,
    StreamState,
    parse_options,
    send_to_both,
)

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


@pytest.mark.parametrize("fails_in", ["", "choose", "act", "hold", "undo"])
def test_an_action_is_stamped_before_and_after_and_undone(fails_in: str) -> None:
    """Targets in the first stamp, an error in the second; without a target nothing is undone."""
    scripted, sent = Scripted(KILL, fails_in), list[Record]()
    own = player(sent)
    own.start([scripted])
    own._threads[0].join(10)

    started, ended = sent
    assert isinstance(started, ActionStarted)
    assert isinstance(ended, ActionEnded)
    assert own.is_done()
    assert (started.planned_at, started.action, ended.number) == (0, "kill_pod", 0)
    assert started.targets == ([] if fails_in == "choose" else ["pod-a"])
    assert f"{fails_in} does not work" in ended.error if fails_in else ended.error == ""
    steps = ["choose", "act", "hold", "undo"]
    undone = ["choose", "act", "undo"] if fails_in == "act" else steps
    assert scripted.calls == (["choose"] if fails_in == "choose" else undone)


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
        of(ActionStarted, 0, "a", at=1, number=number, action=action.kind)
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


def test_calls_to_a_cluster_are_repeated_and_to_localkube_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On rejected connections, and on 500 and 503; a signal that is sent twice would kill twice."""
    monkeypatch.setattr(config, "load_incluster_config", lambda **_: None)
    path = write_kubeconfig(tmp_path / "config")
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(path))

    retries = api_client({}).configuration.retries

    assert retries.connect > 1
    assert {500, 503} <= set(retries.status_forcelist)
    assert api_client({"KUBECONFIG": str(path)}).configuration.retries == 0


NS = 1_000_000_000
AT_SECOND = KillPod(kind="kill_pod", at_seconds=10)
DRAINED = KillPod(kind="kill_pod", at="lag_drained")


def state_at(now: list[int]) -> StreamState:
    """Return a state at the instant in ``now``, drained at 50 messages, from second 20 on."""
    return StreamState(lambda: now[0], drained_records=50, drained_after_seconds=20)


def stream(second: float = 100) -> StreamStarted:
    """Start the stream."""
    return of(StreamStarted, 0, "producer", at=1, stream_started_at=round(second * NS))


def lag(second: float, *partitions: tuple[int, int, int | None]) -> LagSample:
    """Sample the lag."""
    return LagSample(at=round(second * NS), source="recorder", partitions=list(partitions))


def is_due(state: StreamState, action: KillPod) -> bool:
    """Return whether the action is due now."""
    left_seconds = state.left_seconds(action)
    return left_seconds is not None and left_seconds <= 0


def test_a_second_counts_from_the_streams_start() -> None:
    """Before the stream is known nothing is due, and neither before the second.

    When the program ends, what is due is played, and the rest is not.
    """
    now, stopping = [110 * NS], threading.Event()
    state = state_at(now)

    assert not is_due(state, AT_SECOND)
    state.take(stream())
    assert state.planned_at(AT_SECOND) == 110 * NS
    assert is_due(state, AT_SECOND)
    assert state.await_begin(AT_SECOND, stopping)
    now[0] -= 1 * NS
    assert not is_due(state, AT_SECOND)
    stopping.set()
    assert not state.await_begin(AT_SECOND, stopping)


def test_nothing_begins_after_an_abort_of_the_stream() -> None:
    """Not even what was due: the run is given up."""
    state = state_at([110 * NS])
    state.take(stream())
    state.take(of(StreamFinished, aborted="total lag 9"))

    assert not state.await_begin(AT_SECOND, threading.Event())


def test_the_lag_is_drained_after_the_spike_only() -> None:
    """A low lag before the spike's end is none that drained, and an unknown commit is no zero.

    A lag that rises again does not take it back.
    """
    state = state_at([100 * NS])
    for record in (
        stream(),
        lag(115, (0, 100, 100)),
        lag(121, (0, 100, 40)),
        lag(122, (0, 9, None)),
    ):
        state.take(record)
        assert not is_due(state, DRAINED)

    state.take(lag(123, (0, 100, 60), (1, 0, None)))
    state.take(lag(124, (0, 900, 100)))

    assert is_due(state, DRAINED)
    assert state.planned_at(DRAINED) is None


def changes(**fields: Any) -> dict[str, Any]:
    """Return the spec that such a restart merges into the committed Deployment."""
    action = RollingRestart.model_validate({"kind": "rolling_restart", "at_seconds": 1, **fields})
    spec: dict[str, Any] = restart_changes(
        base_manifest("consumer", "Deployment"), action, stamp="now"
    )["spec"]
    return spec


def test_a_plain_restart_changes_the_annotation_alone() -> None:
    """As kubectl rollout restart does; at once it stops all pods first."""
    stamp = {"kubectl.kubernetes.io/restartedAt": "now"}
    template = {"template": {"metadata": {"annotations": stamp}}}
    recreate = {"strategy": {"type": "Recreate", "rollingUpdate": None}}

    assert changes() == template
    assert changes(at_once=True) == template | recreate


def test_new_pods_read_their_new_balancer() -> None:
    """A merge replaces the whole list, so the container stays as it is otherwise."""
    spec = changes(balancer="consumer")

    assert options_of({"spec": spec}).balancer == "consumer"
    before = base_manifest("consumer", "Deployment")["spec"]["template"]["spec"]["containers"][0]
    (container,) = spec["template"]["spec"]["containers"]
    assert container["image"] == before["image"]
    assert container["args"] == [one for one in before["args"] if "balancer" not in one]


def test_new_variables_are_those_of_the_container_that_consumes() -> None:
    """Sidecars keep theirs; an old value of the same name, also one from a Secret, is replaced."""
    secret = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "a"}}}
    run = {"name": "LAGBENCH_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    sidecar = {"name": "proxy", "env": [{"name": "A", "value": "its own"}]}
    orders = {"name": "orders", "env": [run, secret, {"name": "B", "value": "b"}]}
    workload = {"spec": {"template": {"spec": {"containers": [sidecar, orders]}}}}
    action = RollingRestart(kind="rolling_restart", at_seconds=1, env={"A": "new", "C": "c"})

    template = restart_changes(workload, action, stamp="now")["spec"]["template"]

    first, second = template["spec"]["containers"]
    assert first == sidecar
    assert second["env"] == [
        run,
        {"name": "A", "value": "new"},
        {"name": "B", "value": "b"},
        {"name": "C", "value": "c"},
    ]
    assert secret in orders["env"]
