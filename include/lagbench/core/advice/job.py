"""One piece of the search's work: plain data in, plain data out, the same bits everywhere.

A process pool and Spark call the one function ``evaluate_job``. A ``Place`` is shared by all jobs
on a scenario, so that a chunk of jobs, or a broadcast, carries it once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.simulation.simulate import simulate
from lagbench.core.simulation.simulated_world import SimulatedEnvironment

KEPT = (
    "reaction_seconds",
    "drain_seconds",
    "time_lag_p99_seconds",
    "flips",
    "pod_minutes",
    "pod_minutes_in_all",
    "peak_lag_records",
    "max_replicas",
    "rebalances",
    "watched_seconds",
)
"""Fields of ``SimulationMeasures`` that an outcome keeps of each draw, in this order."""
_kept = attrgetter(*KEPT)
_GOLDEN_RATIO = 0.618033988749895


@dataclass(frozen=True)
class Place:
    """Where candidates are judged: a scenario under assumptions; ``name`` is unique in a search."""

    name: str
    scenario: Scenario
    environment: SimulatedEnvironment
    code: str  # the version of the simulator: outcomes of another one do not count

    @cached_property
    def key(self) -> str:
        """Return the digest of all that outcomes depend on except the policy."""
        scenario, around = self.scenario.model_dump(mode="json"), asdict(self.environment)
        return digest({"scenario": scenario, "environment": around, "code": self.code})


@dataclass(frozen=True, slots=True)
class Job:
    """One candidate at one place with ``draws`` draws from ``first_draw`` on."""

    key: str
    candidate: str
    manifest: Mapping[str, Any]
    place: Place
    first_draw: int
    draws: int
    kubernetes: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a job: a row of ``KEPT`` for each draw; None: it has no value there."""

    key: str
    rows: tuple[tuple[float | None, ...], ...]


def digest(content: Any) -> str:
    """Return a short name of plain data that is the same everywhere."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def new_job(
    candidate: str,
    manifest: Mapping[str, Any],
    place: Place,
    draws: range,
    kubernetes: str | None = None,
) -> Job:
    """Return the job of a candidate; its key names policy, scenario, draws and code."""
    key = digest([manifest, place.key, draws.start, len(draws), kubernetes])
    return Job(key, candidate, manifest, place, draws.start, len(draws), kubernetes)


def evaluate_job(job: Job) -> Outcome:
    """Return the measures of each draw; pure, so that a pool and Spark give the same bits.

    :raises WrongInput: the simulator cannot play the policy.
    """
    place = job.place
    policy = Policy.read(job.manifest, where=job.candidate, kubernetes=job.kubernetes)
    known = place.scenario.hpa_sync_at_seconds
    rows = []
    for draw in range(job.first_draw, job.first_draw + job.draws):
        around = place.environment
        if known is None and around.hpa_sync_at_seconds is None:
            phase = draw * _GOLDEN_RATIO % 1.0  # the first draws are spread as evenly as many are
            around = replace(around, hpa_sync_at_seconds=around.hpa_sync_seconds * phase)
        found = simulate(place.scenario, policy, environment=around, draw=draw)
        rows.append(_kept(found.measures))
    return Outcome(job.key, tuple(rows))
