"""What the terminal shows while a group is observed."""

from __future__ import annotations

import pytest

from lagbench.cli.observe_command import reading_text
from lagbench.core.telemetry import LagSample


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

    assert reading_text({"LagSample": sample}) == f"observing: {told}"
