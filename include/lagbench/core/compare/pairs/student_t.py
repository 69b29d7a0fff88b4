"""Student's t for whole degrees of freedom, in closed form."""

from __future__ import annotations

import math

_STEPS = 200


def t_probability(t: float, degrees: int) -> float:
    """Return P(|T| < t) for t >= 0 and ``degrees`` of freedom (at least 1).

    The finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4: exact except for rounding.
    """
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0 if degrees == 1 else term
    for even in range(2, degrees - 1, 2):
        # Odd degrees: 2/3, 4/5, …; even degrees: 1/2, 3/4, …
        factor = even / (even + 1) if is_odd else (even - 1) / even
        term *= factor * cosine * cosine
        total += term
    return (angle + sine * total) * 2 / math.pi if is_odd else sine * total


def t_quantile(confidence: float, degrees: int) -> float:
    """Return t with P(|T| < t) = ``confidence``, which lies between 0 and 1.

    With 0.95 this is the factor of a 95 % interval: 12.706 for one degree, 2.571 for five.
    """
    high = 1.0
    while t_probability(high, degrees) < confidence:
        high *= 2
    low = 0.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if t_probability(middle, degrees) < confidence else (low, middle)
    return high
