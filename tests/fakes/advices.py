"""Advices for tests."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from lagbench.catalog.catalog import load_policy
from lagbench.core.advice.model import Advice, AskedSlo, Candidate, ScenarioResult
from lagbench.core.simulation.simulation_measures import Spread

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
