"""When an action is due: at a second of the stream, or in a state of the run."""

from __future__ import annotations

import threading
from typing import Any

from tests.unit.core.cluster.consumer_pod import options_of

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.core.scenario.actions import KillPod, RollingRestart
from lagbench.core.telemetry.records_of_programs import StreamStarted
from lagbench.core.telemetry.records_of_recorder import LagSample
from lagbench.programs.actions.player import StreamState
from lagbench.programs.actions.workload_actions import restart_changes

NS = 1_000_000_000

AT_SECOND = KillPod(kind="kill_pod", at_seconds=10)

DRAINED = KillPod(kind="kill_pod", at="lag_drained")


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at 100 s."""
        self.now = 100 * NS

    def __call__(self) -> int:
        """Return the instant."""
        return self.now


def state_at(clock: Clock) -> StreamState:
    """Return a state that is drained at 50 messages, from second 20 on."""
    return StreamState(clock, drained_records=50, drained_after_seconds=20)


def stream(second: float = 100) -> StreamStarted:
    """Start the stream."""
    return StreamStarted(
        at=1,
        source="producer",
        stream_started_at=round(second * NS),
        seed=1,
        profile="step",
        planned_total=1,
        planned_seconds=1,
        partitions=1,
    )


def lag(second: float, *partitions: tuple[int, int, int | None]) -> LagSample:
    """Sample the lag."""
    return LagSample(at=round(second * NS), source="recorder", partitions=list(partitions))


def is_due(state: StreamState, action: KillPod) -> bool:
    """Return whether the action is due now."""
    left_seconds = state.left_seconds(action)
    return left_seconds is not None and left_seconds <= 0


def test_a_second_counts_from_the_streams_start() -> None:
    """Before the stream is known nothing is due, and neither before the second."""
    clock = Clock()
    state = state_at(clock)
    clock.now = 110 * NS

    assert not is_due(state, AT_SECOND)
    state.take(stream())
    assert state.planned_at(AT_SECOND) == 110 * NS
    assert is_due(state, AT_SECOND)
    clock.now -= 1 * NS
    assert not is_due(state, AT_SECOND)


def test_the_lag_is_drained_after_the_spike_only() -> None:
    """A low lag before the spike's end is none that drained, and an unknown commit is no zero."""
    state = state_at(Clock())
    for record in (
        stream(),
        lag(115, (0, 100, 100)),
        lag(121, (0, 100, 40)),
        lag(122, (0, 9, None)),
    ):
        state.take(record)
        assert not is_due(state, DRAINED)

    state.take(lag(123, (0, 100, 60), (1, 0, None)))

    assert is_due(state, DRAINED)
    assert state.planned_at(DRAINED) is None


def test_a_state_that_was_reached_stays_reached() -> None:
    """A lag that rises again does not take it back."""
    state = state_at(Clock())
    for record in (stream(), lag(123, (0, 100, 100)), lag(124, (0, 900, 100))):
        state.take(record)

    assert is_due(state, DRAINED)


def test_a_program_that_ends_waits_no_longer() -> None:
    """What is not due when it ends is not played; what is due is."""
    state, stopping = state_at(Clock()), threading.Event()
    state.take(stream(50))

    assert state.await_begin(AT_SECOND, stopping)
    stopping.set()
    assert not state.await_begin(DRAINED, stopping)


def changes(**fields: Any) -> dict[str, Any]:
    """Return the spec that such a restart merges into the committed Deployment."""
    action = RollingRestart.model_validate({"kind": "rolling_restart", "at_seconds": 1, **fields})
    spec: dict[str, Any] = restart_changes(
        base_manifest("consumer", "Deployment"), action, stamp="now"
    )["spec"]
    return spec


def test_a_plain_restart_changes_the_annotation_alone() -> None:
    """As kubectl rollout restart does."""
    stamp = {"kubectl.kubernetes.io/restartedAt": "now"}

    assert changes() == {"template": {"metadata": {"annotations": stamp}}}


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


def test_at_once_stops_all_pods_first() -> None:
    """The strategy is Recreate, without the limits of a rolling one."""
    assert changes(at_once=True)["strategy"] == {"type": "Recreate", "rollingUpdate": None}
