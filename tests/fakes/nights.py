"""Nights of a rehearsal: run folders with a cell, measures and a verdict, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.cell_identity import content_digest
from lagbench.core.measures.measures import Measures
from lagbench.results.gate import GateRecord, judge_night
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.run_folder_builder import SCENARIO_YAML


def measures_with(**changed: dict[str, Any]) -> Measures:
    """Return the measures of quick_spike with fields of some parts changed: ``lag={...}``."""
    good = quick_spike_measures()
    parts = {name: getattr(good, name).model_copy(update=of) for name, of in changed.items()}
    return good.model_copy(update=parts)


def write_night(
    root: Path,
    run_id: str,
    *,
    created_at: int,
    verdict: str = "pass",
    scenario: str = SCENARIO_YAML,
    policy: Any = "policy",
    target: str = "embedded",
    **changed: dict[str, Any],
) -> RunFolder:
    """Write the folder of a run that nobody has compared yet."""
    folder = RunFolder.create(run_id, root)
    measures = measures_with(**changed).model_copy(update={"run_id": run_id})
    cell = {"policy": content_digest(policy), "target": content_digest(target)}
    manifest = {"created_at": created_at, "fidelity": "processes", "cell": cell}
    folder.write_json(folder.manifest, manifest | {"scenario": "quick_spike", "policy": "p"})
    folder.write_json(folder.conf, {"dag_run": f"dag-run-of-{run_id}"})
    folder.write_text(folder.scenario, scenario)
    folder.write_json(folder.measures, measures.model_dump(mode="json"))
    folder.write_json(folder.verdict, {"status": verdict})
    return folder


def rehearse(root: Path, run_id: str, *, created_at: int, **more: Any) -> GateRecord:
    """Write a night and put it through the gate at the same instant."""
    folder = write_night(root, run_id, created_at=created_at, **more)
    return judge_night(folder, now=created_at)
