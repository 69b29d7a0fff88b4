"""The Dag scenario_run on a real bench: broker, localkube, consumers, Spark, Airflow."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.eventually import eventually
from tests.fakes.bench_leftovers import leftovers
from tests.fakes.migrated_database import give_database
from tests.fakes.user_environment import as_a_user

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.verdict.verdict import Verdict
from lagbench.embedded import bench
from lagbench.embedded.bench_state import BenchState
from lagbench.orchestrator.airflow_environment import (
    airflow_command,
    airflow_environment,
)
from localkube.processes import end_process, start_tied

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2700)]

TINY = {
    "scenario": "quick_spike",
    "rate": 200,
    "spike_hold_seconds": 10,
    "overrides": {
        "profile.before_seconds": "5",
        "profile.after_seconds": "5",
        "timeouts.drain_seconds": "90",
        "timeouts.settle_seconds": "150",
    },
}


class Rehearsals:
    """Runs cells on one bench."""

    def __init__(self, state: BenchState, runs: Path) -> None:
        """Use a running bench."""
        self.state, self.runs = state, runs
        with as_a_user():
            environment = airflow_environment(state.state_dir, bench.connections(state))
        self.environment = environment | {
            "LAGBENCH_RUNS_DIR": str(runs),
            **bench.connections(state),
        }

    def start(self, conf: dict[str, Any], log_path: Path) -> subprocess.Popen[bytes]:
        """Start a run; it dies with this process."""
        command = airflow_command("dags", "test", "scenario_run", "--conf", json.dumps(conf))
        with log_path.open("wb") as log:
            return start_tied(command, log=log, env=self.environment)


@pytest.fixture(scope="module")
def rehearsals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsals]:
    """Provide a bench with Airflow's database."""
    state_dir = tmp_path_factory.mktemp("state")
    give_database(state_dir)
    state = bench.up(state_dir, attached=True, on_progress=lambda _: None)
    yield Rehearsals(state, tmp_path_factory.mktemp("runs"))
    bench.down(state_dir)


def phases(folder: RunFolder) -> list[tuple[str, str]]:
    """Return the phases so far."""
    path = folder.path / "phases.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(entry["name"], entry["state"]) for entry in map(json.loads, lines)]


def await_end_of(phase: str, folder: RunFolder) -> None:
    """Wait until a phase has finished."""
    eventually(
        lambda: (phase, "finished") in phases(folder), f"the end of {phase}", within_seconds=900
    )


def test_a_killed_run_is_swept_away_by_the_next(rehearsals: Rehearsals, tmp_path: Path) -> None:
    """After SIGKILL in mid-spike the next cell removes pods, topics and group of the dead one."""
    process = rehearsals.start(TINY | {"run_id": "killed"}, tmp_path / "killed.log")
    await_end_of("inject_spike", RunFolder(rehearsals.runs / "killed"))
    os.kill(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    left = leftovers(rehearsals.state)
    assert RunNames("killed").events_topic in left
    assert f"Job/{RunNames('killed').producer_job}" in left

    second = rehearsals.start(TINY | {"run_id": "next"}, tmp_path / "next.log")
    await_end_of("create_topics", RunFolder(rehearsals.runs / "next"))
    swept = leftovers(rehearsals.state)
    end_process(second.pid, grace_seconds=1)

    assert [name for name in swept if "killed" in name] == []


def test_a_run_that_breaks_a_limit_of_its_own_accounts_for_what_it_sent(
    rehearsals: Rehearsals, tmp_path: Path
) -> None:
    """The stream and the waits end in the spike, the rest goes on: evidence, account, no pass."""
    limits = {"abort.lag_records": "1000"}
    conf = TINY | {"run_id": "aborted", "overrides": TINY["overrides"] | limits}
    process = rehearsals.start(conf, tmp_path / "aborted.log")
    folder = RunFolder(rehearsals.runs / "aborted")
    eventually(folder.verdict.is_file, "the verdict", within_seconds=900)
    process.wait(timeout=300)

    verdict = Verdict.model_validate(folder.read_json(folder.verdict))
    measures = folder.read_model(folder.measures, Measures)
    accounting, made = measures.accounting, measures.validity.generator

    lines = map(json.loads, folder.phases.read_text().splitlines())
    last = {line["name"]: line["detail"] for line in lines}
    assert {last[name] for name in ("lag_at_rest", "replicas_settled", "lag_drained")} == {"moot"}
    assert verdict.status == "undetermined"
    assert [("abort.lag_records 1,000" in reason) for reason in verdict.invalid] == [True]
    assert accounting is not None
    assert accounting.produced_acked == accounting.in_log == made.acked == made.sent
    assert 0 < (made.sent or 0) < (made.planned or 0)
    assert (accounting.lost_in_all, folder.report.is_file()) == (0, True)
