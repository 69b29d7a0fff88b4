"""Names and texts of flags."""

from __future__ import annotations

import pytest

from lagbench.core.scenario.flag import flag_text, flag_values
from lagbench.core.scenario.scenario import ConsumerFlags, ConsumerSettings


def test_the_consumer_s_flags_have_the_lab_s_names() -> None:
    """The lab's command lines name them so."""
    assert flag_values(ConsumerSettings(), ConsumerFlags) == {
        "process-ms": "2",
        "cpu-ms": "0",
        "concurrency": "1",
        "balancer": "cooperative-sticky",
        "commit": "manual",
        "drain": "on",
        "drain-timeout": "20",
        "static-membership": "off",
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "on"), (False, "off"), (2.0, "2"), (0.5, "0.5"), (7, "7"), ("range", "range")],
)
def test_a_value_as_a_flag_takes_it(value: object, text: str) -> None:
    """A truth value is on or off, and a whole number has no decimal point."""
    assert flag_text(value) == text
