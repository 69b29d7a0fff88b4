"""Logarithm and exponential from exactly rounded operations."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lagbench.core.scenario.stream.exact_math import exact_exp, exact_log, exact_power

PINNED = [
    "0x1.ddb680117ab12p-2",
    "0x1.31d20b7a1eecfp-2",
    "0x1.ffb9a2d5d8daep-12",
    "0x1.6f62debaff68cp-25",
]


@given(st.floats(1e-300, 1e300))
def test_log_is_within_two_units_in_the_last_place(value: float) -> None:
    """exact_log agrees with the C library to 5e-16 of the result."""
    found = float(exact_log(np.array([value]))[0])

    assert math.isclose(found, math.log(value), rel_tol=5e-16, abs_tol=1e-16)


@given(st.floats(-600, 600))
def test_exp_is_accurate_to_1e_15(value: float) -> None:
    """exact_exp agrees with the C library to 1e-15."""
    found = float(exact_exp(np.array([value]))[0])

    assert math.isclose(found, math.exp(value), rel_tol=1e-15)


def test_powers_have_the_same_bits_on_every_machine() -> None:
    """A pinned power keeps its exact bits: seeded streams depend on it."""
    found = exact_power(np.array([2.0, 3.0, 1024.5, 5e6]), -1.1)

    assert [value.hex() for value in found.tolist()] == PINNED
