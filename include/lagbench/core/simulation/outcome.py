"""What a simulation returns: the timeline, the measures, and both as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Literal

from lagbench.core.measures import Ints, Reals


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row per HPA sync and per change of replicas; seconds from the start of the stream."""

    second: Reals
    lag_records: Reals
    spec_replicas: Ints
    ready_pods: Ints
    wish: Reals
    """What the metrics asked for before any limit; NaN: no metric was consulted."""


@dataclass(frozen=True, slots=True)
class SimulationMeasures:
    """The measures of one simulated cell; None: the question does not arise, or never came true."""

    scaling_events: int
    flips: int
    rebalances: int
    pod_minutes: float
    max_replicas: int
    peak_lag_records: float
    """Written and not yet done; the recorder's lag also holds what is done and not committed."""
    reaction_seconds: float | None
    """Start of a spike until a new pod is Ready and has partitions, of several the slowest; None:
    no spike brought a pod."""
    seconds_over_slo: float
    """How long a message older than the SLO was waiting."""
    drain_seconds: float | None
    """End of the last spike until total lag is at most one threshold."""
    settled_seconds: float
    """The last change of the replicas, at least the end of the planned stretch."""
    watched_seconds: float


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulated cell."""

    scenario: str
    policy: str
    seed: int
    slo_seconds: float
    measures: SimulationMeasures
    timeline: Timeline
    fidelity: Literal["simulated"] = "simulated"

    def to_json(self, *, with_timeline: bool = True) -> dict[str, Any]:
        """Return everything as plain data; a wish that nobody had is None."""
        line = self.timeline
        plain: dict[str, Any] = {
            "scenario": self.scenario,
            "policy": self.policy,
            "seed": self.seed,
            "fidelity": self.fidelity,
            "slo_seconds": self.slo_seconds,
            "measures": asdict(self.measures),
        }
        if with_timeline:
            wishes = [None if isnan(wish) else int(wish) for wish in line.wish.tolist()]
            plain["timeline"] = {
                "second": [round(second, 3) for second in line.second.tolist()],
                "lag_records": [round(lag) for lag in line.lag_records.tolist()],
                "spec_replicas": line.spec_replicas.tolist(),
                "ready_pods": line.ready_pods.tolist(),
                "wish": wishes,
            }
        return plain
