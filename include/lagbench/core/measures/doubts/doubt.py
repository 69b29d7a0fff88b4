"""A doubt: why a part of the evidence does not show what the run's policy did."""

from __future__ import annotations

from typing import Literal

from lagbench.core.measures.model import MeasureModel

Part = Literal["policy", "lag", "replicas", "group", "work", "latency", "messages", "owners"]
"""``policy``: who scaled, by which rules. ``lag``: offsets. ``replicas``: the workload's.
``group``: its members and the owners of partitions. ``work``: how much was done when. ``latency``:
the time lag. ``messages``: what became of each. ``owners``: who did each, and in which order."""
EVERYTHING: tuple[Part, ...] = (
    "policy",
    "lag",
    "replicas",
    "group",
    "work",
    "latency",
    "messages",
    "owners",
)


class Doubt(MeasureModel):
    """A finding that leaves each SLO on one of ``about`` undetermined, whether it held or not."""

    code: str  # of its rule
    about: tuple[Part, ...]
    text: str  # one sentence with the instant and the two values
