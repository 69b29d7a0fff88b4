"""Predict a run before it starts, and again with its recorded phase."""

from __future__ import annotations

from collections.abc import Mapping

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures import RunEvidence, hpa_sync_at_seconds
from lagbench.core.policy import CheckedPolicy
from lagbench.core.scenario import Scenario
from lagbench.core.simulation import RunPrediction, predict
from lagbench.errors import WrongInput

_NO_PHASE = "no sync of the HPA was recorded"


def predict_run(
    folder: RunFolder,
    scenario: Scenario,
    policy: CheckedPolicy,
    swapped: Mapping[int, CheckedPolicy] | None = None,
) -> RunPrediction:
    """Write the simulator's prediction of the cell before the run starts.

    A policy that the simulator cannot play has no prediction; the file gives the reason.
    """
    try:
        made = RunPrediction(before=predict(scenario, policy, swapped=swapped))
    except WrongInput as refused:
        made = RunPrediction(before=None, before_reason=str(refused))
    folder.write_json(folder.prediction, made.model_dump(mode="json"))
    return made


def read_prediction(folder: RunFolder) -> RunPrediction | None:
    """Return the prediction of the run; None: the run is older than predictions."""
    if not folder.prediction.exists():
        return None
    return RunPrediction.model_validate(folder.read_json(folder.prediction))


def predict_again(folder: RunFolder, run: RunEvidence) -> None:
    """Add the prediction with the recorded phase; a run that was never predicted has none."""
    made = read_prediction(folder)
    if made is None or made.before is None:
        return
    phase = hpa_sync_at_seconds(run)
    if phase is None:
        made = made.model_copy(update={"after": None, "after_reason": _NO_PHASE})
    else:
        again = predict(run.scenario, run.policy, hpa_sync_at_seconds=phase, swapped=run.swapped)
        made = made.model_copy(update={"after": again, "after_reason": ""})
    folder.write_json(folder.prediction, made.model_dump(mode="json"))
