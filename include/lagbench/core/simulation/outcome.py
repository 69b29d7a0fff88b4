"""Define the result of a simulation: the timeline, the measures, and both as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Literal

from lagbench.core.measures import NAMED, Ints, NamedMeasure, Reals


@dataclass(frozen=True, slots=True)
class Timeline:
    """One row per HPA sync and per change of replicas; seconds from the start of the stream."""

    second: Reals
    lag_records: Reals
    spec_replicas: Ints
    ready_pods: Ints
    wish: Reals
    """The replicas that the metrics proposed before any limit; NaN: no metric was consulted."""


@dataclass(frozen=True, slots=True)
class SimulationMeasures:
    """The measures of one simulated cell; None: the question does not arise, or never came true.

    A number that a run has, too, has the name of that measure (``core.measures.NAMED``).
    """

    replica_changes: int
    flips: int
    self_made_flips: int
    rebalances: int
    pod_minutes: float
    """In the planned window, as in a run."""
    pod_minutes_in_all: float
    """To the end of what is watched, so that it holds what a slow scale-down costs."""
    max_replicas: int
    peak_lag_records: float
    """Written and not yet done; the recorder's lag also holds what is done and not committed."""
    time_lag_p50_seconds: float | None
    """Of the messages of the planned window; None: half of them were not done."""
    time_lag_p99_seconds: float | None
    """Likewise; None: more than 1 % of them were not done."""
    reaction_seconds: float | None
    """Start of a spike until a new pod is Ready and has partitions, of several the slowest; None:
    no spike brought a pod."""
    seconds_over_slo: float
    """Time for which a message older than the SLO was waiting."""
    drain_seconds: float | None
    """End of the last spike until total lag is at most one threshold."""
    settled_seconds: float
    """The last change of the replicas, at least the end of the planned window."""
    watched_seconds: float


TIME_OVER_SLO: NamedMeasure[SimulationMeasures] = NamedMeasure(
    "seconds_over_slo", "Time over the SLO", "s", 0, lambda found: found.seconds_over_slo
)
"""A run does not measure it: the ages of waiting messages are in no sample."""
PODS_IN_ALL: NamedMeasure[SimulationMeasures] = NamedMeasure(
    "pod_minutes_in_all",
    "Pod time with the scale-down",
    "pod-minutes",
    1,
    lambda found: found.pod_minutes_in_all,
)
"""A run ends when the replicas are settled, so its end depends on the policy."""
COMPARED: tuple[NamedMeasure[Any], ...] = (
    *(
        NAMED[name]
        for name in ("replica_changes", "flips", "self_made_flips", "rebalances", "pod_minutes")
    ),
    PODS_IN_ALL,
    *(
        NAMED[name]
        for name in ("max_replicas", "peak_lag_records", "time_lag_p99_seconds", "reaction_seconds")
    ),
    TIME_OVER_SLO,
    NAMED["drain_seconds"],
)
"""Policies are compared by these, in the order of the table."""


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
        """Return everything as plain data; a missing proposal is None."""
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
