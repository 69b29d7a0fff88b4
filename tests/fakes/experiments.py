"""Experiments for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.experiment import Experiment, PlannedRun
from lagbench.core.simulation.prediction import Prediction, RunPrediction
from tests.fakes import compared_runs
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
    balancer = "range" if run.cell == "eager" else "cooperative-sticky"
    folder = compared_runs.write_run(
        root,
        f"{run.key.replace('_', '-')}-{attempt}",
        seed=run.seed,
        policy="lag-fast",
        reaction=reaction,
        created_at=began_at,
        verdict=verdict,
        reason="why",
        machine={"cores": cores},
        scenario={"consumer": yaml.safe_load(SCENARIO_YAML)["consumer"] | {"balancer": balancer}},
    )
    if phase is not None:
        known = Prediction(
            phases=1, hpa_sync_at_seconds=phase, measures={}, settled_seconds=1, watched_seconds=1
        )
        made = RunPrediction(before=None, after=known)
        folder.write_json(folder.prediction, made.model_dump(mode="json"))
    return folder
