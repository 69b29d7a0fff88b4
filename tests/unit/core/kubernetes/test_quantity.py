"""Kubernetes quantities in thousandths."""

import pytest

from lagbench.core.kubernetes.quantity import format_milli, metric_milli, parse_milli
from lagbench.errors import WrongInput


@pytest.mark.parametrize(
    ("text", "milli"),
    [
        ("10", 10000),
        ("250m", 250),
        ("1.5", 1500),
        ("1k", 1000000),
        ("1Ki", 1024000),
        ("100n", 1),
        ("2e3", 2000000),
        ("0", 0),
        ("1E", 10**21),
        (7, 7000),
    ],
)
def test_quantities_are_read(text: str, milli: int) -> None:
    """Decimal and binary suffixes and exponents are known; finer than a thousandth rounds up."""
    assert parse_milli(text, where="w", field="f") == milli


@pytest.mark.parametrize("text", ["", "ten", "1 0", "10x", "--1"])
def test_anything_else_is_refused(text: str) -> None:
    """A value that is no quantity names its field."""
    with pytest.raises(WrongInput, match="quantity"):
        parse_milli(text, where="w", field="f")


@pytest.mark.parametrize(
    ("milli", "text"), [(10_000, "10"), (10_500, "10500m"), (0, "0"), (1_000_000, "1k")]
)
def test_quantities_are_written_as_the_api_server_does(milli: int, text: str) -> None:
    """Whole numbers stay whole, others are thousandths."""
    assert format_milli(milli) == text


@pytest.mark.parametrize(
    ("value", "milli"), [(39.0, 39_000), (-4.0, 0), (float("nan"), 0), (float("inf"), 0)]
)
def test_metrics_below_zero_or_undefined_are_served_as_zero(value: float, milli: int) -> None:
    """KEDA's metrics API never serves a negative, infinite or undefined value."""
    assert metric_milli(value) == milli
