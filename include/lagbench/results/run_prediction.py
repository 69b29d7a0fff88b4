"""Predict a run before it starts, and again with its recorded phase and start."""

from __future__ import annotations

import time
from collections.abc import Mapping

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.model import NANOSECONDS
from lagbench.core.measures.run_evidence import RunEvidence, hpa_sync_at_seconds
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.prediction import RunPrediction, predict
from lagbench.core.simulation.simulated_world import SimulatedEnvironment
from lagbench.errors import WrongInput


def predict_run(
    folder: RunFolder,
    scenario: Scenario,
    policy: Policy,
    swapped: Mapping[int, Policy] | None = None,
) -> RunPrediction:
    """Write the simulator's prediction of the cell before the run starts.

    The stream's start is not known yet: for cron triggers it is now.
    A policy that the simulator cannot play has no prediction; the file gives the reason.
    """
    try:
        around = SimulatedEnvironment(starts_at_seconds=time.time_ns() // NANOSECONDS)
        made = RunPrediction(before=predict(scenario, policy, environment=around, swapped=swapped))
    except WrongInput as refused:
        made = RunPrediction(before=None, before_reason=str(refused))
    folder.write_json(folder.prediction, made.model_dump(mode="json"))
    return made


def read_prediction(folder: RunFolder) -> RunPrediction | None:
    """Return the prediction of the run; None: the run is older than predictions."""
    if not folder.prediction.exists():
        return None
    return folder.read_model(folder.prediction, RunPrediction)


def predict_again(folder: RunFolder, run: RunEvidence) -> None:
    """Add the prediction with the recorded phase; a run that was never predicted has none."""
    made = read_prediction(folder)
    if made is None or made.before is None:
        return
    phase, started_at = hpa_sync_at_seconds(run), run.load.stream_started_at
    again, around = None, SimulatedEnvironment()
    if started_at is not None:  # it decides about cron windows
        around = SimulatedEnvironment(starts_at_seconds=started_at // NANOSECONDS)
    if phase is not None:
        again = predict(
            run.scenario,
            run.policy,
            hpa_sync_at_seconds=phase,
            environment=around,
            swapped=run.swapped,
        )
    reason = "no sync of the HPA was recorded" if again is None else ""
    made = made.model_copy(update={"after": again, "after_reason": reason})
    folder.write_json(folder.prediction, made.model_dump(mode="json"))
