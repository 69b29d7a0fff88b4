"""Advices for tests."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from lagbench.adapters.runs.experiment_folder import ExperimentFolder
from lagbench.adapters.runs.run_folder import runs_root
from lagbench.catalog.catalog import load_policy
from lagbench.core.advice.model import Advice, AskedSlo, Candidate, ScenarioResult
from lagbench.core.compare.experiment import PlannedRun
from lagbench.core.simulation.simulation_measures import Spread
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.executions import record_run
from tests.fakes import compared_runs

NO_SPREAD = Spread(None, None, None)


def candidate(name: str, policy: str, scenario: str = "quick_spike") -> Candidate:
    """Return a candidate with the manifest of a policy of the catalog."""
    measures = {
        "reaction_seconds": Spread(15.0, 14.0, 16.0),
        "pod_minutes": Spread(9.0, 9.0, 9.0),
        "watched_seconds": Spread(300.0, 300.0, 300.0),  # no measure of runs
    }
    result = ScenarioResult(
        scenario=scenario,
        draws=2,
        slo_value=measures["reaction_seconds"],
        real_range=None,
        pod_minutes=measures["pod_minutes"],
        flips=NO_SPREAD,
        measures=measures,
        broken={},
        holds=True,
    )
    manifest = deepcopy(dict(load_policy(policy).manifest))
    return Candidate(
        name=name, family="lag", knobs={}, manifest=manifest, results=(result,), holds=True
    )


def advice(**changed: Any) -> Advice:
    """Return an advice on quick_spike whose runner-up is the present policy."""
    given = {
        "outcome": "advice",
        "reasons": (),
        "slo": AskedSlo(name="reaction_seconds", limit=20.0),
        "scenarios": ("quick_spike",),
        "seeds": 2,
        "bounds": (),
        "pick": candidate("lag 12", "lag-quick"),
        "runner_up": candidate("present", "lag-default"),
        "present": candidate("present", "lag-default"),
    }
    return Advice.model_validate({**given, **changed})


def measure(folder: ExperimentFolder, run: PlannedRun, reaction: float, status: Any) -> None:
    """Record a run with a reaction and what its verdict says of it."""
    name = run.key.replace("_", "-")
    made = compared_runs.write_run(runs_root(), name, seed=run.seed, reaction=reaction)
    slo = SloResult(
        name="reaction_seconds",
        title="Scale-out reaction",
        threshold="at most 20 s",
        limit=20.0,
        value=reaction,
        unit="s",
        status=status,
        reason="so it is",
    )
    verdict = Verdict(run_id=name, status="fail", reasons=("of another SLO",), slos=(slo,))
    made.write_json(made.verdict, verdict.model_dump(mode="json"))
    record_run(folder, run, made, now=2)
