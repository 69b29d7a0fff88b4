"""Consumers and recorder of the run, started by their operators."""

from __future__ import annotations

import yaml
from tests.unit.plugins.conftest import World

from lagbench.adapters.kafka.kafka_admin import TopicSpec
from lagbench_airflow.operators.run_consumers import RunConsumersOperator
from lagbench_airflow.operators.start_companions import StartRecorderOperator


def start(world: World) -> None:
    """Run consumers and recorder, with the run's topics."""
    world.admin.create_topics([TopicSpec(name, 2) for name in world.names.topics])
    folder = str(world.folder.path)
    RunConsumersOperator(task_id="run_consumers", run_folder=folder).execute(world.context)
    StartRecorderOperator(task_id="start_recorder", run_folder=folder).execute(world.context)


def as_stateful_set(world: World) -> None:
    """Let the scenario run its consumers as a StatefulSet."""
    scenario = yaml.safe_load(world.folder.read_text(world.folder.scenario))
    changed = scenario | {"consumer": {"workload": "StatefulSet"}}
    world.folder.write_text(world.folder.scenario, yaml.safe_dump(changed))
