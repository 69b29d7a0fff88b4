"""Student's t against published values."""

from __future__ import annotations

import pytest

from lagbench.core.compare.pairs.student_t import t_probability, t_quantile

# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2: upper critical values.
PUBLISHED = [
    (1, 12.706, 63.657),
    (2, 4.303, 9.925),
    (3, 3.182, 5.841),
    (4, 2.776, 4.604),
    (5, 2.571, 4.032),
    (6, 2.447, 3.707),
    (7, 2.365, 3.499),
    (8, 2.306, 3.355),
    (11, 2.201, 3.106),
    (12, 2.179, 3.055),
    (30, 2.042, 2.750),
    (60, 2.000, 2.660),
    (100, 1.984, 2.626),
]


@pytest.mark.parametrize(("degrees", "of_95", "of_99"), PUBLISHED)
def test_quantiles_are_the_published_ones(degrees: int, of_95: float, of_99: float) -> None:
    """The factors of 95 % and 99 % intervals agree with the table, for odd and even degrees."""
    assert t_quantile(0.95, degrees) == pytest.approx(of_95, abs=5e-4)
    assert t_quantile(0.99, degrees) == pytest.approx(of_99, abs=5e-4)


@pytest.mark.parametrize("degrees", [1, 2, 7, 12, 39])
def test_the_quantile_inverts_the_probability(degrees: int) -> None:
    """P(|T| < quantile) is the confidence that was given."""
    assert t_probability(t_quantile(0.9, degrees), degrees) == pytest.approx(0.9, abs=1e-12)


def test_one_degree_is_the_cauchy_distribution() -> None:
    """Half of it lies within +-1."""
    assert t_probability(1.0, 1) == pytest.approx(0.5)
    assert t_probability(0.0, 1) == 0
