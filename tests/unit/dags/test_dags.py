"""The Dags load, and keep the promises that hold for each of them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import json
import shlex
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import typer
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.unit.plugins.conftest import RUN_ID, SCALED_OBJECT, SCENARIO

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import (
    catalog_folder,
    find_file,
    list_experiments,
    policies_folder,
)
from lagbench.catalog.experiments import load_experiment
from lagbench.cli.app import app
from lagbench.core.cluster.lease import AROUND_THE_LOAD_SECONDS, TRIES
from lagbench.core.compare.experiment import draw_schedule
from lagbench.core.scenario.actions import LONGEST_SESSION_SECONDS
from lagbench.core.scenario.run_names import RUN_ID_ANNOTATION
from lagbench.orchestrator.sealed_conf import read_sealed
from lagbench.project import PROJECT_ROOT
from lagbench.results import executions
from lagbench.results.planned_run import cell_digests
from lagbench_airflow import bench_life
from lagbench_airflow.abandoned_runs import own_dags
from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
from lagbench_airflow.operators.rebalance_count_check import RebalanceCountCheckOperator
from lagbench_airflow.params import MORE_CELLS
from lagbench_airflow.run_lookup import CELL_MARK, NIGHTLY_DAG, REHEARSAL_PREFIX, RETRY_MARK
from lagbench_airflow.sensors import run_sensor
from lagbench_airflow.sensors.condition_sensor import ConditionSensor
from lagbench_airflow.sensors.consumer_group import ConsumerGroupStableSensor
from lagbench_airflow.sensors.consumer_lag import ConsumerLagAboveSensor, ConsumerLagDrainedSensor
from lagbench_airflow.sensors.replicas import ReplicasSettledSensor
from lagbench_airflow.triggers.events import ConditionEventTrigger

from airflow.dag_processing.dagbag import DagBag  # isort: skip
from airflow.models.dagrun import DagRun  # isort: skip
from airflow.providers.standard.operators import hitl  # isort: skip
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator  # isort: skip
from airflow.sdk import DAG  # isort: skip
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException  # isort: skip
from airflow.sdk.exceptions import TaskAwaitingInput  # isort: skip

WAITS = ("lag_builds_up", "traffic_finished", "lag_at_rest", "actions_played", "replicas_settled")
CELL = [
    *(
        "plan_cell",
        "approve",
        "bench_up",
        "create_topics",
        "follow_run",
        "run_consumers",
        "start_recorder",
    ),
    *("apply_scaling_policy", "group_stable", "start_actions", "inject_spike", *WAITS, "stop_tail"),
    *("lag_drained", "group_settled", "fence_run", "account_for_messages"),
    *("rebalance_count_check", "reconcile_check", "verdict"),
]
SPARK = "run_spark_consumer"
"""Beside run_consumers: one of the two is skipped."""
TEARDOWNS = ["remove_workloads", "bench_down", "require_verdict"]

EXPERIMENTS = [f"experiment_{name}" for name in list_experiments()]

DAGS = ["advise", "bench_lifecycle", "daily_spike_rehearsal", "housekeeping", "scenario_run"]
DAGS += EXPERIMENTS

ADVICE = ["check", "search", "record_proof", *(f"prove_{number}" for number in range(1, 7))]
ADVICE += ["keep_proof", "approve", "write_policy"]


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """Return the parsed Dags."""
    return DagBag(str(PROJECT_ROOT / "dags"))


def test_every_dag_loads(bag: DagBag) -> None:
    """No file fails to import; parsing all again takes below a second of the processor."""
    assert bag.import_errors == {}
    assert set(DAGS) <= set(bag.dags)
    began = time.thread_time()
    DagBag(str(PROJECT_ROOT / "dags"))
    assert time.thread_time() - began < 1.0


def test_every_dag_has_its_abandoned_runs_ended(bag: DagBag) -> None:
    """A scheduler would continue the one that is left out."""
    assert set(own_dags()) == set(bag.dags)


def test_the_cell_reads_as_a_story(bag: DagBag) -> None:
    """Each task of a cell follows the one before it; gate and teardown follow the verdict.

    Two cells never share the bench. A failing teardown counts, which would hide the gate if it were
    upstream of it.
    """
    dag: DAG = bag.dags["scenario_run"]

    for before, after in itertools.pairwise(CELL):
        either = {SPARK} if before == "run_consumers" else set()
        assert dag.get_task(after).upstream_task_ids == {before, *either}
    assert dag.get_task(SPARK).upstream_task_ids == {"follow_run"}
    assert dag.get_task("start_recorder").trigger_rule == "none_failed_min_one_success"
    assert dag.get_task("verdict").downstream_task_ids == {"slo_gate", "remove_workloads"}
    assert dag.get_task("slo_gate").downstream_task_ids == set()
    assert set(dag.task_ids) == {*CELL, SPARK, "slo_gate", *TEARDOWNS}
    assert dag.max_active_runs == 1
    groups = ["bench", "load", "wait", "account", "judge", "clean_up"]
    shown = [group.group_id for group in dag.task_group.topological_sort()]
    assert shown == groups
    assert [asset.name for asset in dag.get_task("verdict").outlets] == ["lagbench/verdicts"]


def test_cleaning_up_always_runs(bag: DagBag) -> None:
    """The teardowns belong to the setups and fail the run when they fail.

    The last one has none: Airflow skips a teardown whose setups are skipped, and the run would
    count as a success.
    """
    dag = bag.dags["scenario_run"]

    assert [t.task_id for t in dag.tasks if t.is_setup] == ["bench_up", "create_topics"]
    for name in TEARDOWNS:
        task = dag.get_task(name)
        assert task.is_teardown
        assert task.on_failure_fail_dagrun
        assert ("bench_up" in task.upstream_task_ids) is (name != TEARDOWNS[-1])
    assert dag.get_task("require_verdict").upstream_task_ids == {"bench_down"}


def test_a_lease_outlasts_the_tasks(bag: DagBag) -> None:
    """The limits of all tasks but the waits for load, drain and settling are in its allowance.

    With every retry; of the waits each counts as often as it is tried.
    """
    dag = bag.dags["scenario_run"]
    waits = {"group_stable", *WAITS, "lag_drained", "group_settled"}
    tasks = [dag.get_task(name) for name in {*CELL[2:], SPARK, "remove_workloads"} - waits]
    limits = sum(task.execution_timeout.total_seconds() * (task.retries + 1) for task in tasks)
    of_groups = run_sensor.GROUP_FORMS_SECONDS + run_sensor.REPLACEMENT_SECONDS
    of_waits = of_groups + LONGEST_SESSION_SECONDS + run_sensor.FLUSH_ALLOWANCE_SECONDS

    assert limits + TRIES * of_waits <= AROUND_THE_LOAD_SECONDS
    assert max(dag.get_task(name).retries for name in waits) + 1 <= TRIES


@pytest.mark.parametrize("name", DAGS)
def test_every_dag_is_described_and_bounded(bag: DagBag, name: str) -> None:
    """Doc, tags, no catch-up, a limit for the run and each task, an owner, a form that is valid."""
    dag = bag.dags[name]
    dag.validate()
    dag.params.validate()

    assert dag.description
    assert dag.doc_md
    assert "lagbench" in dag.tags
    assert dag.catchup is False
    assert isinstance(dag.dagrun_timeout, timedelta)
    for task in dag.tasks:
        limits = (task.execution_timeout, getattr(task, "response_timeout", None))
        assert sum(limit is not None for limit in limits) == 1, task.task_id
        assert task.owner == "lagbench"
        assert task.doc_md, task.task_id


def test_a_night_that_is_cleared_keeps_the_record_of_the_first(bag: DagBag) -> None:
    """Each try of a night is a Dag run of its own, which the tab looks for; none is ever reset."""
    rehearse: Any = bag.dags[NIGHTLY_DAG].get_task("rehearse")
    names = []
    for cell, number in itertools.product((0, 1), (1, 2)):
        ti = SimpleNamespace(try_number=number, map_index=cell)
        context: Any = {"run_id": "scheduled__a", "ti": ti}
        names.append(rehearse.render_template(rehearse.trigger_run_id, context))

    first = f"{REHEARSAL_PREFIX}scheduled__a"
    second = f"{first}{CELL_MARK}1"
    assert names == [name + mark for name in (first, second) for mark in ("", f"{RETRY_MARK}2")]
    assert not rehearse.reset_dag_run


@pytest.mark.parametrize("name", list_experiments())
def test_an_experiment_runs_in_its_drawn_order(bag: DagBag, name: str) -> None:
    """Each run follows the one before it, between the record of the order and the result."""
    dag = bag.dags[f"experiment_{name}"]
    runs = [run.key for run in draw_schedule(load_experiment(name)).runs]
    order = ["record_order", *runs, "write_result"]

    assert set(dag.task_ids) == set(order)
    for before, after in itertools.pairwise(order):
        assert dag.get_task(after).upstream_task_ids == {before}


def test_only_the_noise_floor_has_a_schedule(bag: DagBag) -> None:
    """It is measured each Sunday after the night's rehearsal, once it is unpaused."""
    tables = {name: bag.dags[name].timetable for name in EXPERIMENTS}

    assert {name for name, table in tables.items() if table.can_be_scheduled} == {
        "experiment_aa_quick_spike"
    }
    assert tables["experiment_aa_quick_spike"].expression == "0 5 * * 0"
    assert bag.dags["experiment_aa_quick_spike"].is_paused_upon_creation


def test_a_run_of_an_experiment_has_the_recorded_conf(bag: DagBag) -> None:
    """It is a Dag run of its own, with another name at each try, and a missed SLO is no failure."""
    task: Any = copy.copy(bag.dags["experiment_rebalance_dip"].get_task("pair_1_range"))
    conf = {"scenario": "quick_spike", "overrides": {"consumer.balancer": "range", "a": "it's"}}
    order = {"folder": "/f", "confs": {"pair_1_range": conf}}
    names = []
    for number in (1, 2):
        again: Any = copy.copy(task)
        ti = SimpleNamespace(try_number=number, xcom_pull=lambda **_: order)
        again.render_template_fields({"run_id": "manual__a", "ti": ti})
        names.append(again.trigger_run_id)

    assert names == [
        "experiment__manual__a__pair_1_range",
        "experiment__manual__a__pair_1_range__try_2",
    ]
    assert json.loads(again.conf) == conf
    assert again.experiment_folder == "/f"
    assert (task.allowed_states, task.failed_states) == (["success", "failed"], [])
    assert (task.deferrable, task.reset_dag_run, task.retries) == (True, False, 2)


def test_an_advice_is_written_behind_its_approval(bag: DagBag) -> None:
    """Each task follows the one before it; a proof that is not asked for is skipped on the way.

    A week without an answer is no approval, and the run outlasts it.
    """
    dag = bag.dags["advise"]
    for before, after in itertools.pairwise(ADVICE):
        assert dag.get_task(after).upstream_task_ids == {before}
    assert set(dag.task_ids) == set(ADVICE)
    rules = {task.task_id for task in dag.tasks if task.trigger_rule == "none_failed"}
    assert rules == {"keep_proof", "approve"}
    approve: Any = dag.get_task("approve")
    assert approve.defaults == ["Reject"]
    assert approve.response_timeout < dag.dagrun_timeout


@pytest.mark.parametrize("ask", [True, False])
def test_an_approval_is_a_flag_where_nobody_is_asked(
    bag: DagBag, monkeypatch: pytest.MonkeyPatch, *, ask: bool
) -> None:
    """With ask off the task ends at once, and skips nothing."""
    approve: Any = copy.copy(bag.dags["advise"].get_task("approve"))
    asked: list[str] = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: asked.append(given["body"]))
    kept = {"search": {"summary": "as simulated"}, "keep_proof": None}
    ti = SimpleNamespace(id=1, xcom_pull=lambda *, task_ids: kept[task_ids])
    context = {"params": {"ask": ask, "scenario": "hello"}, "ti": ti, "task_instance": ti}
    approve.render_template_fields(context)

    with pytest.raises(TaskAwaitingInput) if ask else contextlib.nullcontext():
        assert inspect.unwrap(type(approve).execute)(approve, context) is None
    assert asked == (["as simulated"] if ask else [])


@pytest.mark.parametrize(
    ("number", "conf"), [(0, {"scenario": "/s.yaml", "policy": "/p.yaml"}), (1, None), (2, None)]
)
def test_a_run_of_a_proof_is_handed_on_sealed(
    bag: DagBag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, conf: Any
) -> None:
    """Its policy is a file that the conf of no user may name; kept runs are not made again."""
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path))
    monkeypatch.setattr(executions, "is_kept", lambda _, key: key == "pair_2_pick")
    task: Any = copy.copy(bag.dags["advise"].get_task(f"prove_{number + 1}"))
    triggered: list[dict[str, Any]] = []
    monkeypatch.setattr(
        TriggerDagRunOperator, "execute", lambda self, _: triggered.append(self.conf)
    )
    order = {"folder": "/f", "keys": ["pair_1_pick", "pair_2_pick", ""], "confs": [conf, {}, {}]}
    ti = SimpleNamespace(try_number=1, xcom_pull=lambda **_: order)
    task.render_template_fields({"run_id": "manual__a", "ti": ti})

    with pytest.raises(AirflowSkipException) if number == 2 else contextlib.nullcontext():
        inspect.unwrap(type(task).execute)(task, {})

    run = "advice__manual__a__1"
    read = [read_sealed(tmp_path, one["sealed"], dag_run=run) for one in triggered]
    assert read == ([] if conf is None else [conf])
    assert all("policy" not in one for one in triggered)


PUBLIC = [
    ConditionSensor,
    ConsumerLagAboveSensor,
    ConsumerLagDrainedSensor,
    ConsumerGroupStableSensor,
    ReplicasSettledSensor,
    RebalanceCountCheckOperator,
    ApplyScalingPolicyOperator,
    ConditionEventTrigger,
]

GUARD = ["lag_drained_before", "is_watched", "restart", "replicas_settled", "group_stable"]


def test_the_example_guards_before_during_and_after() -> None:
    """It loads as it is, and the watch runs beside the change that it watches.

    The bench does not load it: its folder of Dags does not hold it.
    """
    bag = DagBag(str(PROJECT_ROOT / "docs" / "examples"))
    assert bag.import_errors == {}
    dag = bag.dags["guard_deployment"]

    for before, after in itertools.pairwise([*GUARD, "lag_drained_after"]):
        assert dag.get_task(after).upstream_task_ids == {before}
    assert dag.get_task("rebalances_during").upstream_task_ids == {"lag_drained_before"}
    assert dag.get_task("rebalances_during").downstream_task_ids == set()
    assert list((PROJECT_ROOT / "dags").rglob("guard_deployment*")) == []


def test_the_example_restores_what_three_swaps_replaced() -> None:
    """The teardown has no setup: that of a failed one would not run."""
    dag = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags["compare_policies"]
    story = [f"{verb}_{n}" for n in (1, 2, 3) for verb in ("rests", "apply", "measure")]

    for before, after in itertools.pairwise(story):
        assert before in dag.get_task(after).upstream_task_ids
    restore: Any = dag.get_task("restore")
    assert (restore.undo, restore.is_teardown) == ("apply_1", True)
    assert restore.upstream_task_ids == {"compare"}
    assert [task.task_id for task in dag.tasks if task.is_setup] == []


@pytest.mark.parametrize(
    ("mark", "generation", "is_measured"),
    [("apply_2", 5, True), ("restore", 5, False), ("apply_2", 6, False), (None, None, False)],
)
def test_the_example_measures_only_its_own_policy(
    monkeypatch: pytest.MonkeyPatch, mark: str | None, generation: int, *, is_measured: bool
) -> None:
    """Not after ``restore`` (the task was cleared alone), nor beside another change or deletion."""
    dag = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags["compare_policies"]
    measure: Any = dag.get_task("measure_2").python_callable
    annotations = {RUN_ID_ANNOTATION: mark}
    live = {"metadata": {"generation": generation, "annotations": annotations}}
    objects = {"Deployment": {"spec": {"replicas": 3}}} | ({"ScaledObject": live} if mark else {})
    kube = SimpleNamespace(get=lambda kind, _: objects.get(kind), close=lambda: None)
    kube.elsewhere = lambda _: kube
    reader = SimpleNamespace(lags=lambda *_: {0: 7}, close=lambda: None)
    params = {"minutes": 1e-9, "namespace": "n", "group": "g", "topic": "t", "deployment": "d"}
    stand_ins = {
        "get_current_context": lambda: {"params": params},
        "KafkaHook": lambda: SimpleNamespace(open_lag_reader=lambda: reader),
        "open_kube": lambda: kube,
        "SECONDS_BETWEEN_LOOKS": 0,
        "time": SimpleNamespace(monotonic=iter([0.0, 0.0, 1.0]).__next__, sleep=lambda _: None),
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setitem(measure.__globals__, name, stand_in)
    applied = {"kind": "ScaledObject", "name": "x", "mark": "apply_2", "generation": 5}

    if is_measured:
        assert measure("lag-default", applied)["peak_lag"] == 7
        return
    with pytest.raises(AirflowFailException, match="apply_"):
        measure("lag-default", applied)


def test_the_example_on_spark_ends_what_it_starts() -> None:
    """The teardown runs after a crash, too: that of a setup would not when the setup has failed."""
    dag = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags["work_off_with_spark"]
    end: Any = dag.get_task("end")

    assert (end.is_teardown, end.ends, end.upstream_task_ids) == (True, "consume", {"consume"})
    consume: Any = dag.get_task("consume")
    assert (consume.deferrable, consume.is_setup) == (True, False)


def test_the_examples_wait_for_an_event() -> None:
    """A spike that begins, and a verdict."""
    dags = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags
    (spikes,), (verdicts,) = (
        [asset.name for asset in dags[name].timetable.asset_condition.objects]
        for name in ("observe_spikes", "deploy_after_pass")
    )
    assert (spikes, verdicts) == ("spikes", "lagbench/verdicts")


def test_the_observation_of_a_spike_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that the example's task writes, of the group that its watcher reads."""
    dag = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags["observe_spikes"]
    (task,), (spikes,) = dag.tasks, dag.timetable.asset_condition.objects
    (watched,) = spikes.watchers
    settings = {"bootstrap.servers": "kafka:9092"}
    conn = SimpleNamespace(kafka_default=SimpleNamespace(extra_dejson=settings))
    written: Any = task
    words = shlex.split(
        dag.get_template_env().from_string(written.python_callable()).render(conn=conn)
    )

    command = typer.main.get_command(app).commands["observe"]  # type: ignore[attr-defined]
    given = command.make_context("observe", words[2:]).params

    assert words[:2] == ["lagbench", "observe"]
    condition = watched.trigger.condition
    assert (given["topic"], given["group"]) == (condition.topic, condition.group)
    assert given["bootstrap_servers"] == "kafka:9092"


WEAKER = [{"rate_scale": "0.05"}, {"slos.time_lag_p99_seconds": "3600"}, {"seed": "9"}]


@pytest.mark.parametrize(
    ("verdicts", "goes_on"),
    [
        ([("fail", {}), ("pass", {})], True),
        ([("pass", {}), ("fail", {})], False),
        ([("pass", {}), *(("fail", one) for one in WEAKER)], True),
        *(([("pass", one)], False) for one in WEAKER),
        ([], False),
    ],
)
def test_only_the_newest_pass_of_what_is_deployed_counts(
    verdicts: list[tuple[str, dict[str, str]]], *, goes_on: bool
) -> None:
    """Of the rehearsal of the file as it is, without another setting; in any order of events."""
    require_pass, module = gate_of_deployment()

    def digests(overrides: dict[str, str]) -> dict[str, str]:
        return cell_digests(
            checked_cell(module["SCENARIO"], policy=module["POLICY"], overrides=overrides)
        )

    events = [event(at, status, digests(over)) for at, (status, over) in enumerate(verdicts)]
    for given in (events, events[::-1]):
        with contextlib.nullcontext() if goes_on else pytest.raises(AirflowSkipException):
            require_pass({"triggering_asset_events": {module["VERDICTS"]: given}})


@pytest.mark.parametrize("changed", ["scenario", "policy"])
def test_a_pass_of_another_file_of_the_name_deploys_nothing(tmp_path: Path, changed: str) -> None:
    """A file of an allowed folder, with the catalog's name and another content."""
    require_pass, module = gate_of_deployment()
    scenario = find_file(module["SCENARIO"], catalog_folder() / "scenarios", "scenario")
    files = {"scenario": scenario, "policy": find_file(module["POLICY"], policies_folder(), "")}
    before = {"scenario": "reaction_seconds: ", "policy": 'lagThreshold: "'}[changed]
    other = tmp_path / files[changed].name
    other.write_text(files[changed].read_text().replace(before, f"{before}9"))
    files[changed] = other

    cell = checked_cell(files["scenario"], policy=str(files["policy"]))

    assert (cell.scenario.name, cell.policy_name) == (module["SCENARIO"], module["POLICY"])
    passed = event(0, "pass", cell_digests(cell))
    with pytest.raises(AirflowSkipException):
        require_pass({"triggering_asset_events": {module["VERDICTS"]: [passed]}})


def gate_of_deployment() -> Any:
    """Return the gate of the example that deploys, and the names of its file."""
    deploy: Any = DagBag(str(PROJECT_ROOT / "docs" / "examples")).dags["deploy_after_pass"].tasks[0]
    assert deploy.policy == deploy._pre_execute_hook.__globals__["POLICY"]
    return deploy._pre_execute_hook, deploy._pre_execute_hook.__globals__


def event(at: int, status: str, cell: dict[str, str]) -> Any:
    """Return an event of a verdict."""
    return SimpleNamespace(timestamp=at, extra={"status": status, "cell": {**cell, "target": "t"}})


@pytest.mark.parametrize(("more", "hours"), [("", 1.5), ("hello\n\nbursty lag-quick\n", 4.5)])
def test_a_night_of_more_cells_is_due_later(
    monkeypatch: pytest.MonkeyPatch, more: str, hours: float
) -> None:
    """Those of a schedule, which come from the defaults of the form."""
    monkeypatch.setenv("LAGBENCH_NIGHTLY", json.dumps({MORE_CELLS: more}))
    dags = DagBag(str(PROJECT_ROOT / "dags" / "daily_spike_rehearsal.py")).dags
    (deadline,) = dags[NIGHTLY_DAG].deadline

    assert deadline.interval == timedelta(hours=hours)


@pytest.mark.parametrize("public", PUBLIC)
def test_the_docs_name_every_parameter(public: type) -> None:
    """A parameter that is added or renamed is in docs/own-dags.md."""
    text = (PROJECT_ROOT / "docs" / "own-dags.md").read_text()
    parameters = [
        name
        for name, parameter in inspect.signature(public.__init__).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]

    assert parameters
    assert [name for name in parameters if f"`{name}`" not in text] == []


CLEAN = [("remove_workloads", "finished", ""), ("bench_down", "finished", "")]


class TaskState(NamedTuple):
    """What Airflow reads of a task instance to find the state of its run."""

    task_id: str
    state: str


@pytest.fixture(scope="module")
def cell() -> Any:
    """Return the Dag of a cell."""
    return DagBag(str(PROJECT_ROOT / "dags" / "scenario_run.py")).dags["scenario_run"]


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return the folder of a run with a verdict."""
    made = RunFolder.create(RUN_ID, tmp_path)
    made.write_text(made.scenario, yaml.safe_dump(SCENARIO))
    made.write_text(made.policy, yaml.safe_dump(SCALED_OBJECT))
    made.write_json(made.verdict, {"status": "pass"})
    return made


def test_only_the_gate_and_the_last_teardown_decide(cell: Any) -> None:
    """Airflow takes the state of a run from its leaves, and no other task here is one."""
    states = [TaskState(task_id, "success") for task_id in cell.task_ids]

    leaves = DagRun._tis_for_dagrun_state(None, dag=cell, tis=states)  # type: ignore[arg-type]

    assert {leaf.task_id for leaf in leaves} == {"slo_gate", "require_verdict"}


@pytest.mark.parametrize(
    ("phases", "has_verdict", "said"),
    [
        ([("remove_workloads", "failed", "pod x stays"), CLEAN[1]], True, "loads: pod x stays"),
        ([CLEAN[0], ("bench_down", "failed", "broker stays")], True, "bench_down: broker stays"),
        ([], True, "remove_workloads"),
        (CLEAN, False, "a verdict"),  # it was ended before its verdict
        # A try of the clean-up that failed before one that succeeded does not count.
        ([("remove_workloads", "failed", "Kafka is away"), *CLEAN], True, None),
    ],
)
def test_a_run_without_a_verdict_or_a_clean_up_fails(
    cell: Any,
    folder: RunFolder,
    phases: list[tuple[str, str, str]],
    has_verdict: bool,
    said: str | None,
) -> None:
    """The state of a teardown before the last one is not the run's, so the last one fails."""
    names = ("name", "state", "detail")
    lines = [json.dumps({"at": 1, **dict(zip(names, one, strict=True))}) for one in phases]
    folder.write_text(folder.phases, "".join(f"{line}\n" for line in lines))
    if not has_verdict:
        folder.verdict.unlink()
    conclude = cell.get_task("require_verdict").python_callable

    if said is None:
        conclude(run_folder=str(folder.path))
        return
    with pytest.raises(AirflowFailException, match=said):
        conclude(run_folder=str(folder.path))


@pytest.mark.parametrize(("try_number", "is_last_try"), [(1, False), (2, False), (3, True)])
def test_the_clean_up_knows_its_last_try(
    cell: Any,
    folder: RunFolder,
    monkeypatch: pytest.MonkeyPatch,
    try_number: int,
    *,
    is_last_try: bool,
) -> None:
    """After it nothing is tried again, so it must not keep the cluster's Lease."""
    task = cell.get_task("remove_workloads")
    context = {"ti": SimpleNamespace(try_number=try_number, max_tries=task.retries)}
    monkeypatch.setitem(task.python_callable.__globals__, "get_current_context", lambda: context)
    monkeypatch.setattr(bench_life, "clean_up", lambda _, **given: given)

    given = task.python_callable(run_folder=str(folder.path))

    assert given["is_last_try"] is is_last_try


def test_a_refused_run_keeps_the_message_for_its_page(
    cell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no run folder to keep it in."""
    task, kept = cell.get_task("plan_cell"), dict[str, str]()
    run = SimpleNamespace(run_id="manual__1")
    context = {"ti": SimpleNamespace(xcom_push=kept.__setitem__), "dag_run": run}
    context |= {"params": {"scenario": "hallo"}}
    monkeypatch.setitem(task.python_callable.__globals__, "get_current_context", lambda: context)

    with pytest.raises(AirflowFailException) as refused:
        task.python_callable()

    assert kept == {"refused": str(refused.value)}
    assert "did you mean hello?" in kept["refused"]


def test_a_run_that_ended_before_its_folder_was_made_fails(cell: Any) -> None:
    """The first task of a run that is marked as failed at once is skipped and has no result."""
    task = cell.get_task("require_verdict")
    ti = SimpleNamespace(xcom_pull=lambda **_: None)
    again = copy.copy(task)
    again.render_template_fields({"ti": ti})

    with pytest.raises(AirflowFailException, match="plan_cell"):
        again.python_callable(*again.op_args, **again.op_kwargs)
