"""Run folders for comparisons: a cell, a seed, measures, a verdict, a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.verdict.verdict import Verdict
from tests.fakes.nights import write_night
from tests.fakes.run_folder_builder import SCENARIO_YAML

MACHINE = {"processor": "Fast 9000", "cores": 2, "memory_bytes": 8_000_000_000}


def write_run(
    root: Path,
    run_id: str,
    *,
    seed: int = 1,
    policy: str = "slow",
    reaction: float = 20.0,
    created_at: int = 1,
    verdict: Any = "pass",
    reason: str = "so it is",
    machine: dict[str, Any] | None = None,
    scenario: dict[str, Any] | None = None,
) -> RunFolder:
    """Write the folder of a run that was judged."""
    content = yaml.safe_load(SCENARIO_YAML) | {"seed": seed} | (scenario or {})
    folder = write_night(
        root,
        run_id,
        created_at=created_at,
        scenario=yaml.safe_dump(content),
        policy=policy,
        reaction={"assigned_seconds": reaction},
    )
    folder.update_manifest(
        policy=policy,
        seed=seed,
        machine=machine or MACHINE,
        versions={"python": "3.11", "kafka-broker": "4.3.1"},
    )
    measures = folder.read_json(folder.measures) | {"seed": seed, "policy": policy}
    folder.write_json(folder.measures, measures)
    judged = Verdict(run_id=run_id, status=verdict, reasons=(reason,), slos=())
    folder.write_json(folder.verdict, judged.model_dump(mode="json"))
    return folder
