"""The check of a group's rebalances in any Dag, and the end of a run's base load."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred
from tests.unit.plugins.conftest import World, change_scenario, execute, workload

from lagbench.adapters.kafka.kafka_admin import GroupMember, GroupSnapshot
from lagbench.core.telemetry.records_of_programs import ProducerProgress, Record, StreamFinished
from lagbench.errors import NotReady, WrongInput
from lagbench_airflow.operators import offered_load as stop_tail
from lagbench_airflow.operators.offered_load import StopTailOperator
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.triggers.condition import ConditionTrigger, KeptClients, Reason, run_inline
from lagbench_airflow.triggers.conditions import TooManyRebalances

A, AB = {"a": [0, 1]}, {"a": [0], "b": [1]}


class Watched:
    """A group whose members change from look to look, and the task that watches it."""

    def __init__(self, world: World, *looks: dict[str, list[int]] | str) -> None:
        """Give each look its members, or a state of the broker; the last one stays."""
        self.world, self.looks, self.pushed = world, list(looks), dict[str, Any]()
        self._describe = world.admin.describe_group
        world.admin.describe_group = self.look  # type: ignore[method-assign]

    def look(self, group: str) -> Any:
        """Describe the group as of this look."""
        members = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(members, str):
            raise NotReady(members)
        self.world.admin.groups[group] = {
            name: [("orders", number) for number in numbers] for name, numbers in members.items()
        }
        return self._describe(group)

    @property
    def context(self) -> Any:
        """Return a context that keeps what the task pushes."""
        push = lambda *, key, value: self.pushed.__setitem__(key, value)  # noqa: E731
        return {"ti": SimpleNamespace(xcom_push=push)}

    def run(self, **changes: Any) -> dict[str, Any]:
        """Watch for a moment."""
        return check(**changes).execute(self.context)

    def deferred(self) -> tuple[RebalanceCountCheckOperator, TaskDeferred]:
        """Return an operator that has deferred, and the deferral."""
        operator = check(deferrable=True, window=600)
        with pytest.raises(TaskDeferred) as deferral:
            operator.execute(self.context)
        return operator, deferral.value


def check(**changes: Any) -> RebalanceCountCheckOperator:
    """Return the operator with a window of 0.2 s."""
    arguments = {"group": "billing", "window": 0.2, "max_rebalances": 0, "poke_interval": 0.01}
    return RebalanceCountCheckOperator(task_id="it", **{**arguments, **changes})


def test_a_quiet_group_passes(world: World) -> None:
    """The result says how closely it was watched, and the first look is an XCom.

    The limit is inclusive. Whatever the arguments say there is no retry, which would watch another
    window.
    """
    watched = Watched(world, A)
    result = watched.run()

    assert (result["rebalances"], result["most_members"], result["group"]) == (0, 1, "billing")
    assert result["looks"] > 1
    assert set(watched.pushed) == {"watched_from"}
    watched.looks = [A, A, AB]
    assert watched.run(max_rebalances=1)["rebalances"] == 1
    assert [check(retries=3).retries, check(default_args={"retries": 3}).retries] == [0, 0]


@pytest.mark.parametrize(
    ("looks", "changes", "failure", "said"),
    [
        ((A, A, AB), {"window": 3600}, AirflowFailException, r"1 rebalances .* 0 "),  # at once
        (({},), {}, AirflowFailException, r"undetermined.*no member"),  # a wrong group name
        ((A, "away"), {"longest_gap": 0.05}, AirflowFailException, r"undetermined.*away"),
        (("away",), {}, NotReady, "away"),  # there is no first look
    ],
)
def test_what_proves_nothing_or_too_much_fails(
    world: World,
    looks: tuple[Any, ...],
    changes: dict[str, Any],
    failure: type[Exception],
    said: str,
) -> None:
    """With the reason."""
    with pytest.raises(failure, match=said):
        Watched(world, *looks).run(**changes)


def test_a_static_member_that_came_back_is_no_rebalance(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a new member id under its instance id, and nobody's partitions have changed."""
    ids = itertools.count()

    def describe(group: str) -> GroupSnapshot:
        member = GroupMember(f"m{next(ids)}", "c", "billing-0", "127.0.0.1", (("orders", 0),))
        return GroupSnapshot(group, "STABLE", "CLASSIC", "range", (member,))

    watched = Watched(world, A)
    monkeypatch.setattr(world.admin, "describe_group", describe)

    assert watched.run()["rebalances"] == 0
    assert next(ids) > 1


def test_the_first_look_goes_with_the_trigger(world: World) -> None:
    """A rebalance between the task's look and the triggerer's is counted.

    It fires no earlier than Airflow can take it, and until then goes on to look.
    """
    operator, deferral = Watched(world, A, AB).deferred()
    assert isinstance(deferral.trigger, ConditionTrigger)
    trigger = ConditionTrigger(**deferral.trigger.serialize()[1])
    condition = trigger.conditions[""]
    assert isinstance(condition, TooManyRebalances)
    assert condition.read(KeptClients()).is_met is False
    condition.fires_from_at = 0.0
    event = run_inline(trigger)

    assert event["reason"] == Reason.REACHED
    with pytest.raises(AirflowFailException, match="1 rebalances "):
        resume(operator, deferral, event)


def test_a_triggerer_that_never_looked_leaves_it_undetermined(world: World) -> None:
    """The time since the task's own look is a gap."""
    operator, deferral = Watched(world, A).deferred()

    with pytest.raises(AirflowFailException, match="undetermined"):
        resume(operator, deferral, {"reason": "timed_out", "seen": {"error": "broker away"}})


def resume(operator: RebalanceCountCheckOperator, deferral: TaskDeferred, event: Any) -> Any:
    """Resume the task with the trigger's event, as Airflow does."""
    arguments = {**(deferral.kwargs or {}), "event": event}
    return operator.resume_execution(deferral.method_name, arguments, {})


@pytest.mark.parametrize(
    ("field", "value"),
    [("window", 0), ("max_rebalances", -1), ("poke_interval", 0), ("poke_interval", 60)],
)
def test_wrong_numbers_are_found_when_the_dag_is_read(field: str, value: float) -> None:
    """The message names the task and the field."""
    with pytest.raises(WrongInput, match=f"task it: {field} = "):
        check(**{field: value})


PLANNED = 100 * 5 + 1000 * 10 + 100 * 5
STARTED_AT = 5_000


def progress(sent: int) -> ProducerProgress:
    """Return what the producer says once a second."""
    late = dict.fromkeys(("lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms"))
    counts = dict.fromkeys(("planned", "sent", "acked"), sent)
    return ProducerProgress(at=1, source="producer", failed=0, **counts, **late)


def finished(tail_sent: int) -> StreamFinished:
    """Return what the producer says last."""
    nothing = ("failed", "unknown", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms")
    return StreamFinished(
        at=2,
        source="producer",
        **dict.fromkeys(("planned", "sent", "acked"), PLANNED + tail_sent),
        **dict.fromkeys(nothing, 0),
        fell_behind=False,
        reason="completed",
        stream_sha256="",
        tail_sent=tail_sent,
        tail_seconds=tail_sent / 100,
    )


@pytest.fixture
def reported(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Return the telemetry of a producer that is in its tail; it is read as it is then."""
    records: list[Record] = [progress(PLANNED - 1), progress(PLANNED)]

    def first_record(
        _servers: str, _topic: str, kind: type, *, where: Callable[[Any], bool] = lambda _: True
    ) -> Record | None:
        return next((r for r in records if isinstance(r, kind) and where(r)), None)

    monkeypatch.setattr(stop_tail, "first_record", first_record)
    world.folder.update_manifest(stream_started_at=STARTED_AT)
    job = workload("Job", "producer") | {"metadata": {"name": world.names.producer_job}}
    job["spec"]["template"]["metadata"]["labels"]["lagbench.io/run-id"] = world.names.run_id
    world.kube.apply(job)
    return records


def stop(world: World, is_settled: str = "True") -> tuple[Any, bool]:
    """Run the task; return the manifest's tail, and whether the producer's Job is there."""
    execute(StopTailOperator, world, is_settled=is_settled)
    has_job = world.kube.get("Job", world.names.producer_job) is not None
    return world.folder.read_json(world.folder.manifest).get("tail"), has_job


def test_the_tail_is_ended_and_noted(world: World, reported: list[Record]) -> None:
    """The Job is deleted; the manifest has the tail, also after a retry."""
    reported.append(finished(tail_sent=4200))
    noted = {
        "rate_per_second": 100.0,
        "most_seconds": 900 + 600 + 120,
        "started_at": STARTED_AT + 20_000_000_000,
        "seconds": 42.0,
        "sent": 4200,
        "ended_by": "settled",
    }
    assert stop(world) == (noted, False)
    assert list(world.folder.logs.iterdir())
    assert stop(world) == (noted, False)


@pytest.mark.parametrize(
    ("end", "is_settled", "by"),
    [(None, "False", "timeout"), ("Complete", "True", "bound"), ("Failed", "True", "failure")],
)
def test_what_ended_the_tail_is_noted(
    world: World, reported: list[Record], end: str | None, is_settled: str, by: str
) -> None:
    """The wait for the floor timed out, or the producer had ended: then its Job stays as it is."""
    reported.append(finished(tail_sent=1))
    if end is not None:
        world.kube.finish_job(world.names.producer_job, end)

    noted, has_job = stop(world, is_settled)
    assert (noted["ended_by"], has_job) == (by, end is not None)


def test_a_producer_that_said_nothing_is_a_failure(world: World, reported: list[Record]) -> None:
    """Nobody knows how long the tail was: missing is not zero.

    One behind its plan is stopped in the end: the wait for the planned window is bounded. Without a
    tail the producer ends by itself, and nothing is touched.
    """
    kept = change_scenario(world, tail="none")
    assert stop(world) == (None, True)
    world.folder.write_text(world.folder.scenario, kept)
    del reported[1]
    noted, has_job = stop(world)

    assert (noted["ended_by"], noted["seconds"], noted["sent"]) == ("failure", None, None)
    assert not has_job
