"""``--json``: one document on stdout and nothing else, with the exit code as without."""

from __future__ import annotations

import contextlib
import json
import math
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.compared_runs import write_run
from tests.unit.cli.conftest import Command

from lagbench.adapters.kafka import kafka_lag
from lagbench.cli import rehearsal
from lagbench.cli.terminal import Terminal, print_json
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT
from lagbench.results.history import HISTORY_FILE

KEPT = PROJECT_ROOT / "tests/data/runs/stand_in_fail.tar.xz"
SCALED_OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: orders}
spec:
  scaleTargetRef: {name: orders}
  minReplicaCount: 1
  maxReplicaCount: 4
  triggers:
    - type: kafka
      metadata: {bootstrapServers: 'k:9092', topic: t, consumerGroup: g, lagThreshold: '100'}
    - type: cpu
      metricType: Utilization
      metadata: {value: '60'}
"""


@pytest.fixture
def failed(lagbench: Command) -> str:
    """Return the id of a kept run whose verdict is fail, in the runs folder."""
    with tarfile.open(KEPT) as archive:
        archive.extractall(lagbench.runs, filter="data")
    return next(lagbench.runs.iterdir()).name


def test_a_run_has_its_verdict_values_and_counts(lagbench: Command, failed: str) -> None:
    """The values of the tables, unrounded; the exit code is the verdict's."""
    answer = lagbench("show", failed, "--json")
    found = json.loads(answer.out)

    assert (answer.code, answer.err) == (ExitCode.SLO_FAILED, "")
    assert (found["run_id"], found["verdict"], found["exit_code"]) == (failed, "fail", 1)
    slos = {slo["name"]: slo for slo in found["slos"]}
    assert (slos["duplicated"]["status"], slos["duplicated"]["value"]) == ("fail", 312)
    assert found["measures"]["duplicated"] == found["accounting"]["duplicated"] == 312
    assert (found["began"], found["report"]) == ("2026-11-27T03:53:10Z", None)
    (line,) = json.loads(lagbench("show", "--json").out)
    assert (line["run_id"], line["verdict"], line["seed"]) == (failed, "fail", 1)


def test_a_rehearsal_speaks_on_stderr(
    lagbench: Command, failed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Progress goes there; stdout has the document of the new run."""

    @contextlib.contextmanager
    def opened_target(console: Terminal, *_: object, **__: object) -> Iterator[Callable[..., None]]:
        def rehearse(conf: dict[str, Any]) -> None:
            console.say("the lag builds up")
            (lagbench.runs / failed).rename(lagbench.runs / conf["run_id"])

        yield rehearse

    monkeypatch.setattr(rehearsal, "opened_target", opened_target)
    answer = lagbench("run", "hello", "--json")

    assert (answer.code, json.loads(answer.out)["verdict"]) == (ExitCode.SLO_FAILED, "fail")
    assert answer.err.endswith("the lag builds up\n")


def test_a_plan_has_prediction_and_needs(lagbench: Command) -> None:
    """Medians with their range; what one pod does is in messages per second."""
    answer = lagbench("plan", "hello", "--json", "--manifests")
    found = json.loads(answer.out)
    (group,) = found["groups"]

    assert (found["scenario"], found["policy"], group["phases"]) == ("hello", "lag-hello", 16)
    reaction = group["prediction"]["reaction_seconds"]
    assert reaction["low"] <= reaction["median"] <= reaction["high"]
    assert (group["peak_rate"], group["pod_rate"], group["max_replicas"]) == (1200, 250, 4)
    assert group["spikes"][0]["start_seconds"] == 8
    assert [slo["name"] for slo in group["slos"]] == ["reaction_seconds", "flips"]
    assert {one["kind"] for one in found["manifests"]} >= {"ScaledObject", "Deployment", "Job"}


@pytest.mark.parametrize(("limit", "is_warned_of"), [(100, True), (1_000_000, False)])
def test_a_plan_warns_of_a_run_that_would_be_given_up(
    lagbench: Command, limit: int, *, is_warned_of: bool
) -> None:
    """The predicted peak lag is above the limit at which the stream ends early."""
    answer = lagbench("plan", "hello", "--json", "--set", f"abort.lag_records={limit}")
    (group,) = json.loads(answer.out)["groups"]

    assert any("abort.lag_records 100:" in one for one in group["warnings"]) is is_warned_of


def test_a_history_shows_runs_that_it_has_no_line_of(lagbench: Command) -> None:
    """A runs folder that was copied has no history.parquet, or not of each run; nothing is made."""
    for number in range(2):
        write_run(lagbench.runs, f"run-{number}", created_at=number)
    (line,) = json.loads(lagbench("history", "--json").out)
    (cell,) = json.loads(lagbench("history", "quick_spike", "--json").out)

    assert (line["cell"], line["runs"], line["newest_run"]) == ("quick_spike/slow/1", 2, "run-1")
    assert [run["measures"]["reaction_seconds"] for run in cell["runs"]] == [20, 20]
    assert [segment["run_ids"] for segment in cell["segments"]] == [["run-0", "run-1"]]
    assert not (lagbench.runs / HISTORY_FILE).exists()
    lagbench("history", "--rebuild")
    write_run(lagbench.runs, "run-2", created_at=2)
    assert json.loads(lagbench("history", "--json").out)[0]["runs"] == 3


def test_an_explanation_has_cause_steps_and_partitions(
    lagbench: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text begins with the cause; a trigger that reads no lag has neither."""
    lag = {("t", number): PartitionOffsets(1_600, 1_000) for number in range(2)}
    monkeypatch.setattr(kafka_lag, "read_trigger_offsets", lambda *_: lag)
    file = tmp_path / "orders.yaml"
    file.write_text(SCALED_OBJECT)
    asked = ("explain", "--scaled-object", str(file))
    of_lag, of_cpu = json.loads(lagbench(*asked, "--json").out)["triggers"]

    cause = "lag 1,200, of which 200 count, requests 2 pods"
    assert (of_lag["index"], of_lag["cause"], of_cpu["cause"]) == (0, cause, None)
    assert lagbench(*asked).out.splitlines()[1] == cause
    assert [one["lag"] for one in of_lag["partitions"]] == [600, 600]
    assert of_lag["steps"][-1]["name"] == "replicas"
    assert (of_cpu["steps"], of_cpu["partitions"]) == ([], [])


def test_what_is_not_a_number_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON has no infinity."""
    print_json({"capacity": math.inf, "rows": ((math.nan, 1.5),)})
    assert json.loads(capsys.readouterr().out) == {"capacity": None, "rows": [[None, 1.5]]}
