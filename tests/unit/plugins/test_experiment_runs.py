"""The tasks of an experiment's Dag."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.experiments import BASE, write_run

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.errors import NotReady, WrongInput
from lagbench.results.executions import read_execution, read_progress, record_order, write_result
from lagbench_airflow.operators.rehearse_experiment_cell import RehearseExperimentCellOperator

from airflow.sdk.exceptions import AirflowException  # isort: skip


@pytest.fixture(autouse=True)
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a catalog with one experiment, and an embedded bench as target."""
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv("LAGBENCH_CATALOG", str(tmp_path))
    for folder, name in (("experiments", "tiny"), ("scenarios", "quick_spike")):
        (tmp_path / folder).mkdir()
        source = Path(__file__).parents[3] / "include/catalog/scenarios/quick_spike.yaml"
        text = yaml.safe_dump(BASE) if name == "tiny" else source.read_text()
        (tmp_path / folder / f"{name}.yaml").write_text(text)
    return tmp_path


def ended(catalog: Path, order: dict[str, Any], key: str, **how: Any) -> str:
    """Write the run folder of a Dag run that has ended; return the Dag run's id."""
    progress = read_progress(ExperimentFolder(Path(order["folder"])))
    planned = next(run for run in progress.schedule.runs if run.key == key)
    folder = write_run(catalog / "runs", planned, **how)
    dag_run = f"experiment__x__{folder.run_id}"
    folder.write_json(folder.conf, {"dag_run": dag_run})
    return dag_run


def complete(order: dict[str, Any], key: str, dag_run: str) -> str:
    """Let the operator see the end of the Dag run."""
    operator = RehearseExperimentCellOperator(run_key=key)
    operator.experiment_folder = order["folder"]
    event = ("DagStateTrigger", {"run_ids": [dag_run], dag_run: "failed"})
    context: Any = {"ti": SimpleNamespace()}
    return operator.execute_complete(context, event)


def test_the_order_is_recorded_with_the_conf_of_every_run(catalog: Path) -> None:
    """The execution belongs to the Dag; each conf has seed, phase and settings of its pair."""
    order = record_order("tiny", "embedded")
    execution = read_execution(ExperimentFolder(Path(order["folder"])))

    assert execution.started_by == "dag"
    assert list(order["confs"]) == [run.key for run in execution.schedule.runs]
    conf = order["confs"]["pair_2_eager"]
    assert (conf["scenario"], conf["keep_bench"]) == ("quick_spike", False)
    assert conf["overrides"]["seed"] == "2"
    assert conf["overrides"]["consumer.balancer"] == "range"
    assert float(conf["overrides"]["hpa_sync_at_seconds"]) < 15


def test_a_cell_that_cannot_run_ends_the_dag_before_its_first_run(catalog: Path) -> None:
    """No execution is started."""
    wrong = {**BASE, "overrides": {"partitions": 0}}
    (catalog / "experiments" / "tiny.yaml").write_text(yaml.safe_dump(wrong))

    with pytest.raises(WrongInput, match="partitions"):
        record_order("tiny", "embedded")
    assert not (catalog / "runs").exists()


def test_a_missed_slo_is_kept_as_a_result(catalog: Path) -> None:
    """The Dag run failed, and the run is recorded with its verdict."""
    order = record_order("tiny", "embedded")
    dag_run = ended(catalog, order, "pair_1_eager", verdict="fail")

    run_id = complete(order, "pair_1_eager", dag_run)

    (record,) = read_progress(ExperimentFolder(Path(order["folder"]))).records
    assert (record.run_id, record.verdict, record.attempt) == (run_id, "fail", 1)


@pytest.mark.parametrize("bench_failed_at_first", [False, True])
def test_an_undetermined_run_is_repeated_once_and_then_a_gap(
    catalog: Path, *, bench_failed_at_first: bool
) -> None:
    """The task fails, so Airflow makes another try; the second leaves a gap and goes on.

    A try without a verdict takes no repetition away.
    """
    order, key = record_order("tiny", "embedded"), "pair_1_eager"
    if bench_failed_at_first:
        with pytest.raises(NotReady, match="plan_cell"):
            complete(order, key, "another")
    first = ended(catalog, order, key, verdict="undetermined")
    with pytest.raises(AirflowException, match="gave no result"):
        complete(order, key, first)
    complete(order, key, ended(catalog, order, key, verdict="undetermined", attempt=2))

    progress = read_progress(ExperimentFolder(Path(order["folder"])))
    assert [run.key for run in progress.gaps] == [key]
    assert RehearseExperimentCellOperator(run_key=key).retries == 2


def test_a_run_without_a_verdict_is_no_result(catalog: Path) -> None:
    """The task fails and nothing is recorded: the bench, not the policy, is at fault."""
    order = record_order("tiny", "embedded")
    dag_run = ended(catalog, order, "pair_1_eager")
    (catalog / "runs" / "pair-1-eager-1" / "verdict.json").unlink()

    with pytest.raises(NotReady, match=r"verdict\.json"):
        complete(order, "pair_1_eager", dag_run)
    with pytest.raises(NotReady, match="plan_cell"):
        complete(order, "pair_1_eager", "another")
    assert read_progress(ExperimentFolder(Path(order["folder"]))).records == ()


def test_the_last_task_writes_the_result(catalog: Path) -> None:
    """It names the file and the differences; with runs missing it fails."""
    order = record_order("tiny", "embedded")
    with pytest.raises(NotReady, match="12 runs"):
        write_result(order["folder"])
    for key in order["confs"]:
        complete(order, key, ended(catalog, order, key))

    found = write_result(order["folder"])

    assert Path(found["result"]).read_text().startswith("# Tiny")
    assert found["has_gap"] is False
    assert any(line.startswith("eager minus calm: ") for line in found["differences"])
