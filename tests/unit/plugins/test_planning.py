"""A run's topics."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.plugins.conftest import SERVERS, World

from lagbench.core.cluster_settings import ClusterSettings
from lagbench_airflow import planning
from lagbench_airflow.cell_run import CellRun
from lagbench_airflow.hooks import kafka


@pytest.fixture
def cell(world: World, monkeypatch: pytest.MonkeyPatch) -> CellRun:
    """Return the world's run, whose planning reaches the world."""
    monkeypatch.setattr(planning, "KafkaHook", kafka.KafkaHook)
    monkeypatch.setattr(planning, "settings_of_cluster", lambda *_: world.cluster)
    return CellRun.open(str(world.folder.path))


def test_topics_keep_everything_whatever_the_broker_s_defaults(world: World, cell: CellRun) -> None:
    """Neither age nor size drops a message, and one replica in sync is enough for a write."""
    planning.create_run_topics(cell)

    kept: dict[str, Any] = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": "1",
    }
    assert {name: dict(spec.configs) for name, spec in world.admin.specs.items()} == dict.fromkeys(
        world.names.topics, kept
    )


@pytest.mark.parametrize(("setting", "factor"), [(None, -1), (3, 3)])
def test_replicas_of_topics_are_a_setting_of_the_cluster(
    world: World, cell: CellRun, setting: int | None, factor: int
) -> None:
    """Left out, the broker's default holds."""
    world.cluster = ClusterSettings(bootstrap_servers=SERVERS, replication_factor=setting)

    planning.create_run_topics(cell)

    assert {spec.replication_factor for spec in world.admin.specs.values()} == {factor}
