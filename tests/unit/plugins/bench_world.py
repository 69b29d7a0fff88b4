"""What ``bench_up`` finds beside the cluster's objects, for tests of that task."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.plugins.conftest import World

from lagbench.core.spark.settings import SparkPlace
from lagbench_airflow import bench_life
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.hooks import target


def stand_in_for_bench(
    world: World, monkeypatch: pytest.MonkeyPatch, *, is_embedded: bool, **others: object
) -> None:
    """Let the task find the world's Kafka and cluster, and in ``others`` what else it asks for."""
    cluster: Any = world.kube
    cluster.server_version = lambda: "v1.34.4"
    spark = SimpleNamespace(place=SparkPlace.KUBERNETES)
    stand_ins: dict[str, object] = {
        "open_kube": lambda **_: world.kube,
        "KafkaHook": lambda: SimpleNamespace(get_conn=lambda: world.admin),
        "SparkTarget": SimpleNamespace(read=lambda _: spark),
        **others,
    }
    for name, stand_in in stand_ins.items():
        monkeypatch.setattr(bench_life, name, stand_in)
    monkeypatch.setattr(target, "connection", lambda *_: None)
    monkeypatch.setattr(target, "is_embedded", lambda: is_embedded)


def bench_up(world: World) -> dict[str, Any]:
    """Run what the task ``bench_up`` does."""
    return bench_life.bring_bench_up(lambda _: None, cell=CellRun.open(str(world.folder.path)))
