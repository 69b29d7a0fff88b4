"""The peak of a profile is bounded, whatever it is the product of."""

import pytest
from pydantic import TypeAdapter, ValidationError

from lagbench.core.scenario.profiles import Profile

PROFILE: TypeAdapter[Profile] = TypeAdapter(Profile)
STEP = {"kind": "step", "before_seconds": 1, "spike_hold_seconds": 1, "after_seconds": 1}
BURSTY = {"kind": "bursty", "quiet_seconds": 1, "spike_hold_seconds": 1, "bursts": 2}
TRACE = {
    "kind": "trace",
    "file": "rates.csv",
    "points": [{"second": 0, "rate_per_second": 1000}, {"second": 9, "rate_per_second": 0}],
}


@pytest.mark.parametrize(
    ("profile", "field", "most"),
    [
        (STEP | {"rate_per_second": 1_000_000, "spike_mult": 1000}, "spike_mult", 1),
        (BURSTY | {"rate_per_second": 2000, "spike_mult": 501}, "spike_mult", 500),
        (TRACE | {"rate_scale": 1000.5}, "rate_scale", 1000),
    ],
)
def test_a_product_above_the_highest_rate_is_refused(
    profile: dict[str, object], field: str, most: int
) -> None:
    """The message names the factor and what it may be."""
    with pytest.raises(ValidationError, match=rf"profile\.{field} .* {most}:"):
        PROFILE.validate_python(profile)


@pytest.mark.parametrize(
    "profile",
    [
        STEP | {"rate_per_second": 1000, "spike_mult": 1000},
        BURSTY | {"rate_per_second": 2000, "spike_mult": 500},
        TRACE | {"rate_scale": 1000},
    ],
)
def test_the_highest_rate_itself_is_allowed(profile: dict[str, object]) -> None:
    """A peak of 1,000,000 messages a second is a profile."""
    assert PROFILE.validate_python(profile).kind == profile["kind"]
