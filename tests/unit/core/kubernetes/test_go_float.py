"""Numbers with a fraction, as Go reads them."""

import pytest

from lagbench.core.kubernetes.go_float import go_float


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("10", 10.0),
        ("-.5", -0.5),
        ("1E3", 1000.0),
        ("Inf", float("inf")),
        ("+infinity", float("inf")),
        ("1_0.5", 10.5),
        ("0x1p4", 16.0),
        ("0x_1p4", 16.0),
    ],
)
def test_a_number(text: str, number: float) -> None:
    """Go 1.26 gives the same for each of these."""
    assert go_float(text) == number


@pytest.mark.parametrize("text", ["", " 1", "1_", "1__0", "_1", "abc", "0x1", "1e", "\u0661"])
def test_no_number(text: str) -> None:
    """Neither blanks nor stray underscores nor the digits of other scripts."""
    with pytest.raises(ValueError, match="invalid syntax"):
        go_float(text)


@pytest.mark.parametrize("text", ["1e400", "0x1p2000"])
def test_a_number_that_is_too_large(text: str) -> None:
    """What would be infinite is out of range, unless it says so itself."""
    with pytest.raises(ValueError, match="value out of range"):
        go_float(text)
