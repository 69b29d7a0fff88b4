"""Read from a run folder what the live lines say of the cell."""

from __future__ import annotations

from typing import Any, Literal

import yaml
from pydantic import ValidationError

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.live import LiveCell, LiveSpike, live_slos
from lagbench.core.policy import CheckedPolicy, PolicyLimits
from lagbench.core.scenario import Scenario
from lagbench.core.scenario.stream import load_spikes, offered_load
from lagbench.errors import NotReady


def read_cell(folder: RunFolder) -> tuple[LiveCell, Scenario, PolicyLimits]:
    """Return the cell of the folder's group, its scenario and the limits of its policy.

    :raises NotReady: a file that plan_cell writes is missing or broken.
    """
    try:
        scenario = Scenario.model_validate(yaml.safe_load(folder.read_text(folder.scenario)))
        manifest = yaml.safe_load(folder.read_text(folder.policy))
    except (ValidationError, yaml.YAMLError) as broken:
        raise NotReady(
            f"{folder.path} is not a run folder as plan_cell writes it: {broken}"
        ) from None
    limits = CheckedPolicy.of_run(manifest, where=str(folder.policy)).limits
    load = offered_load(scenario.profile)
    cell = LiveCell(
        run_id=folder.reference,
        scenario=scenario.name,
        policy=str(folder.read_json(folder.manifest).get("policy")),
        partitions=scenario.partitions,
        planned_seconds=load.duration_seconds,
        settled_seconds=_settled_seconds(folder),
        floor_replicas=limits.started_replicas,
        ceiling_replicas=limits.ceiling_replicas,
        spikes=[
            LiveSpike(start_seconds=spike.start_seconds, end_seconds=spike.end_seconds)
            for spike in load_spikes(
                load,
                started_replicas=limits.started_replicas,
                pod_rate=scenario.consumer.pod_rate_per_second,
            )
        ],
        slos=live_slos(scenario.slos),
        group=_group(folder),
    )
    return cell, scenario, limits


def _group(folder: RunFolder) -> Literal["first", "second"] | None:
    if folder.is_second:
        return "second"
    return None if folder.second is None else "first"


def _settled_seconds(folder: RunFolder) -> float | None:
    if not folder.prediction.is_file():
        return None
    before: dict[str, Any] | None = folder.read_json(folder.prediction).get("before")
    return None if before is None else float(before["settled_seconds"])
