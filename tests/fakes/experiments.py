"""Experiments for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.experiment import Experiment, PlannedRun
from lagbench.core.simulation.prediction import Prediction, RunPrediction
from lagbench.core.verdict.verdict import Verdict
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.run_folder_builder import SCENARIO_YAML

BASE: dict[str, Any] = {
    "name": "tiny",
    "title": "Tiny",
    "question": "Does it differ?",
    "scenario": "quick_spike",
    "cells": [
        {"name": "calm"},
        {"name": "eager", "overrides": {"consumer.balancer": "range"}, "expects": "fail"},
    ],
    "pairs": 6,
    "hours": 1.0,
}


def experiment(**changed: Any) -> Experiment:
    """Return a small experiment with other fields."""
    return Experiment.model_validate({**BASE, **changed})


def write_run(
    root: Path,
    run: PlannedRun,
    *,
    verdict: str = "pass",
    attempt: int = 1,
    reaction: float = 16.5,
    phase: float | None = None,
    began_at: int = 1,
    cores: int = 2,
) -> RunFolder:
    """Write the folder of a run of the schedule that has ended."""
    good = quick_spike_measures()
    folder = RunFolder.create(f"{run.key.replace('_', '-')}-{attempt}", root)
    measures = good.model_copy(
        update={
            "run_id": folder.run_id,
            "seed": run.seed,
            "reaction": good.reaction.model_copy(update={"assigned_seconds": reaction}),
        }
    )
    scenario = yaml.safe_load(SCENARIO_YAML) | {"seed": run.seed}
    scenario["consumer"]["balancer"] = "range" if run.cell == "eager" else "cooperative-sticky"
    manifest = {
        "created_at": began_at,
        "policy": "lag-fast",
        "machine": {"cores": cores},
        "cell": {"policy": "p", "target": "t"},
    }
    folder.write_json(folder.manifest, manifest)
    folder.write_text(folder.scenario, yaml.safe_dump(scenario))
    folder.write_json(folder.measures, measures.model_dump(mode="json"))
    judged = Verdict(run_id=folder.run_id, status=verdict, reasons=("why",), slos=())  # type: ignore[arg-type]
    folder.write_json(folder.verdict, judged.model_dump(mode="json"))
    if phase is not None:
        made = RunPrediction(before=None, after=_predicted(phase))
        folder.write_json(folder.prediction, made.model_dump(mode="json"))
    return folder


def _predicted(phase: float) -> Prediction:
    return Prediction(
        phases=1, hpa_sync_at_seconds=phase, measures={}, settled_seconds=1, watched_seconds=1
    )
