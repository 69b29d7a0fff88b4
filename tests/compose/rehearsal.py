"""One rehearsal of the smallest scenario, as a user of Airflow's REST API runs it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import httpx

from tests.compose.engine.engine import EngineFailed, wait_until
from tests.compose.stack import Stack

DAG = "scenario_run"
_FILES = ("tests/data/scenarios/tiny_spike.yaml", "tests/data/policies/lag-tiny.yaml")
_HOME = "/opt/airflow"
_DAG_LIMIT_SECONDS = 900
_RUN_LIMIT_SECONDS = 2400
_LOOK_SECONDS = 1.0  # more often would take part in what the run measures
_LOG_CHARACTERS = 3000
_SUCCESS, _FAILED = "success", "failed"
GATE = "slo_gate"
"""Fails a run by what it measured, which the Kubernetes suite beside it on two cores may spoil."""
_SCRAPED = 'up{{run_id="{run_id}"}} == 1'


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What was seen of a rehearsal, during it and afterwards."""

    run_id: str
    dag_run_id: str
    state: str  # of the Dag run
    tasks: dict[str, str]  # state by task
    verdict: dict[str, Any]
    scraped: frozenset[str]  # the labels ``app`` of the pods that Prometheus reached meanwhile
    consumers: int  # the most of them at one time
    accounting: dict[str, Any]
    tail_messages: int


def rehearse(stack: Stack) -> Rehearsed:
    """Trigger ``scenario_run``, look at Prometheus until it ends, and read its results."""
    for file in _FILES:
        stack.compose("cp", file, f"airflow-scheduler:{_HOME}/")
    wait_until(lambda: _is_there(stack), f"the Dag {DAG}", limit_seconds=_DAG_LIMIT_SECONDS)
    scenario, policy = (f"{_HOME}/{file.rpartition('/')[2]}" for file in _FILES)
    conf = {"scenario": scenario, "policy": policy, "run_id": "compose-suite"}
    runs = f"/api/v2/dags/{DAG}/dagRuns"
    asked = stack.airflow("POST", runs, json={"logical_date": None, "conf": conf})
    asked.raise_for_status()
    dag_run_id, run_id = str(asked.json()["dag_run_id"]), conf["run_id"]

    state, apps, consumers = "", set[str](), 0

    def has_ended() -> bool:
        nonlocal state, consumers
        reached = stack.ask_prometheus(_SCRAPED.format(run_id=run_id))
        seen = [item["metric"].get("app", "") for item in reached]
        apps.update(seen)
        consumers = max(consumers, seen.count("consumer"))
        try:
            answer = stack.airflow("GET", f"{runs}/{dag_run_id}")
        except httpx.TimeoutException:  # a busy server; the limit below ends it
            return False
        state = str(answer.raise_for_status().json()["state"])
        return state in {_SUCCESS, _FAILED}

    wait_until(
        has_ended,
        "the end of the rehearsal",
        limit_seconds=_RUN_LIMIT_SECONDS,
        every_seconds=_LOOK_SECONDS,
    )
    instances = stack.airflow("GET", f"{runs}/{dag_run_id}/taskInstances?limit=100").json()
    tasks = {item["task_id"]: str(item["state"]) for item in instances["task_instances"]}
    failed = [task for task, ended in tasks.items() if ended == _FAILED and task != GATE]
    if failed or (state != _SUCCESS and tasks.get(GATE) != _FAILED):
        (first, *_) = failed or [""]
        log = stack.airflow("GET", f"{runs}/{dag_run_id}/taskInstances/{first}/logs/1").text
        # The cause last: the end of a long output is what CI keeps.
        said = f"{stack.evidence()}\n{first}: {log[-_LOG_CHARACTERS:]}"
        raise EngineFailed(f"{said}\nthe Dag run ended as {state}: {tasks}")
    return Rehearsed(
        run_id, dag_run_id, state, tasks, _result(stack, run_id, "verdict.json"),
        frozenset(apps), consumers,
        accounting=_result(stack, run_id, "accounting.json"),
        tail_messages=int(_result(stack, run_id, "manifest.json")["tail"]["sent"]),
    )  # fmt: skip


def _is_there(stack: Stack) -> bool:
    """Whether Airflow has read the Dag; it answers 404 before."""
    return stack.airflow("GET", f"/api/v2/dags/{DAG}").status_code == 200


def _result(stack: Stack, run_id: str, file: str) -> dict[str, Any]:
    text = stack.run_in("airflow-scheduler", "cat", f"/opt/lagbench/runs/{run_id}/{file}")
    found: dict[str, Any] = json.loads(text)
    return found
