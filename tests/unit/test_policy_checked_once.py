"""How often the processes of one run check and parse its policy."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.autoscaler_world import scaled_object, world
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.catalog.catalog import checked_cell
from lagbench.core.plan.plan import plan_cell
from lagbench.core.policy.checked_policy import CheckedPolicy
from lagbench.core.simulation.prediction import predict
from lagbench.localkube.storage.registry import Registry
from lagbench.localkube.storage.resources import DEPLOYMENT, NAMESPACE, SCALED_OBJECT
from lagbench.localkube.storage.store import Store
from lagbench.results.measure import measure_run
from lagbench.results.prediction import predict_run
from lagbench.results.read_run import read_scenario

Counted = Counter[str]
ONCE = {"admitted": 1, "parsed": 1}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Count each admission and each parse of a ScaledObject, whoever asks for it."""
    counts: Counted = Counter()
    places = {
        "admitted": ("lagbench.core.policy.admission.answer", "_decoded"),
        "parsed": ("lagbench.core.keda.object.scaled_object", "_read"),
    }
    for name, (module, function) in places.items():
        original = getattr(importlib.import_module(module), function)
        monkeypatch.setattr(f"{module}.{function}", _counting(counts, name, original))
    return counts


def _counting(counts: Counted, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        counts[name] += 1
        return original(*args, **kwargs)

    return call


def test_a_command_checks_its_policy_once(counted: Counted) -> None:
    """``lagbench plan`` asks for needs and a prediction over 16 phases, and checks once."""
    cell = checked_cell("quick_spike")
    plan_cell(cell.scenario, cell.policy)
    predict(cell.scenario, cell.policy)

    assert counted == ONCE


def test_the_first_task_of_a_run_checks_the_policy_once(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """plan_cell checks, predicts and writes the run folder from one checked policy."""
    from lagbench_airflow import planning
    from lagbench_airflow.hooks import target

    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(tmp_path))
    monkeypatch.setattr(target, "is_embedded", lambda: True)
    connection = SimpleNamespace(extra_dejson={"kube_config_path": "/bench"})
    monkeypatch.setattr(target, "connection", lambda _: connection)

    planning.plan_run({"scenario": "quick_spike"}, dag_run="d")

    assert counted == ONCE


def test_later_tasks_do_not_check_the_policy_again(counted: Counted, tmp_path: Path) -> None:
    """A task takes bounds and threshold from the run folder, which holds a checked policy."""
    from lagbench_airflow.cell_run import CellRun

    folder = quick_spike_run().write(tmp_path)

    cell = CellRun.open(str(folder.path))

    assert cell.policy.limits.floor_replicas == 2
    assert cell.tail is not None
    assert not counted


def test_measuring_a_run_parses_its_policy_once_and_checks_nothing(
    counted: Counted, tmp_path: Path
) -> None:
    """The second prediction needs the parsed spec; its 16 phases share one."""
    folder = quick_spike_run().write(tmp_path)
    policy = CheckedPolicy.of_run(yaml.safe_load(folder.policy.read_text()), where="policy")
    predict_run(folder, read_scenario(folder), policy)
    counted.clear()

    measure_run(folder)

    assert counted == {"parsed": 1}


def test_the_api_server_admits_a_spec_once(counted: Counted) -> None:
    """Localkube answers for a real API server: it admits what is written, and no status."""
    registry = Registry(Store())
    registry.create(NAMESPACE, {"metadata": {"name": "n"}}, "")
    registry.store.insert(DEPLOYMENT, {"metadata": {"name": "w", "namespace": "n", "uid": "d"}})
    stored = registry.create(SCALED_OBJECT, scaled_object(), "n")
    assert counted == {"admitted": 1}

    labelled = {**stored["metadata"], "labels": {"a": "b"}}
    registry.update(SCALED_OBJECT, {**stored, "metadata": labelled, "status": {"conditions": []}})

    assert counted == {"admitted": 1}


def test_the_autoscaler_parses_an_object_once_for_all_its_polls(counted: Counted) -> None:
    """It reads the object from the API, as KEDA does, and again only when the object changes."""
    here = world(scaled_object())
    for _ in range(5):
        here.time.seconds += here.worker.step()

    assert counted == {"parsed": 1}
