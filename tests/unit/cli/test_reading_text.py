"""What the terminal shows while a group is observed."""

from __future__ import annotations

import re

import pytest

from lagbench.cli.observe_command import reading_text
from lagbench.core.telemetry.records_of_recorder import GroupSample, LagSample, ReplicaSample

S = 1_000_000_000


@pytest.mark.parametrize(
    ("partitions", "told"),
    [
        ([(0, 50, 20), (1, 10, 10)], "lag 30"),
        ([(0, 50, 20), (1, 10, None)], "lag –"),
        ([(0, 50, None)], "lag –"),
        ([(0, 50, 20), (1, 0, None)], "lag 30"),
        ([(0, 19, 20)], "lag 0"),
    ],
)
def test_an_unknown_lag_is_no_number(
    partitions: list[tuple[int, int, int | None]], told: str
) -> None:
    """A partition without a commit may have any lag, unless it has no message."""
    sample = LagSample(at=0, source="recorder", partitions=partitions)

    assert reading_text({"LagSample": sample}, now=0) == f"observing: {told}"


@pytest.mark.parametrize(
    ("seconds", "figures"),
    [(3, ["30", "2", "2", "3"]), (4, ["–", "–", "2", "3"]), (9, ["–", "–", "–"])],
)
def test_a_reading_that_is_not_renewed_is_no_longer_shown(seconds: int, figures: list[str]) -> None:
    """While Kafka or Kubernetes is away, the last reading says nothing of now."""
    newest = {
        "LagSample": LagSample(at=0, source="observer", partitions=[(0, 50, 20)]),
        "GroupSample": GroupSample(
            at=0, source="observer", state="stable", members=2, members_without_partitions=0
        ),
        "ReplicaSample": ReplicaSample(at=S, source="observer", spec=3, current=3, ready=2),
    }

    assert re.findall(r"\d+|–", reading_text(newest, now=seconds * S)) == figures
