"""The subject of a run that only observed a group: lagbench started neither load nor pods.

The manifest of such a run has the field ``observed``. Its load is what the log took, and its group
reports nothing about itself: work comes from committed offsets, members from the broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

OBSERVED_FIELD = "observed"
NO_POLICY = "none"
"""The name of the policy of an observed group that nothing scales, or of which none was given."""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observed group; None: not given, or not seen.

    ``pods_at_start`` is the number of replicas, else of members, in the first reading.
    """

    group: str
    topic: str
    deployment: str | None = None
    policy: str | None = None  # kind and name of the object that scales it
    assignor: str | None = None  # as the broker names it
    pods_at_start: int | None = None
    pod_rate_per_second: float | None = None
    policy_unknown: str = ""
    """Why an object that may scale the group could not be read; empty: all were read."""
    pod_rate_source: str = "the group was never busy for long enough to show it"

    def as_dict(self) -> dict[str, Any]:
        """Return the value of the manifest's field."""
        return asdict(self)


def observation_of(manifest: Mapping[str, Any]) -> Observation | None:
    """Return the observation of a run's manifest; None: the run made its own load."""
    found = manifest.get(OBSERVED_FIELD)
    return None if found is None else Observation(**found)
