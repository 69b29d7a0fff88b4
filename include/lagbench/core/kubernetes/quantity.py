"""Kubernetes quantities as integers of a thousandth ("milli"), the unit of all HPA arithmetic."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from math import isfinite

from lagbench.errors import WrongInput

_NOTATION = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>[eE][+-]?\d+|[KMGTPE]i|[numkMGTPE]|)"
)
_SUFFIX_FACTOR = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}


def parse_milli(text: str | float, *, where: str, field: str) -> int:
    """Return a quantity ("10", "250m", "1.5Gi") in thousandths; finer parts round up."""
    match = _NOTATION.fullmatch(str(text))
    if match is None:
        allowed = "a Kubernetes quantity such as 10, 250m or 1.5Gi"
        raise WrongInput(where=where, field=field, value=text, allowed=allowed)
    number, suffix = Decimal(match["number"]), match["suffix"]
    # "E" alone is exa; "e3" and "E3" are exponents.
    factor = _SUFFIX_FACTOR.get(suffix)
    value = number * factor if factor is not None else number.scaleb(int(suffix[1:]))
    return int((value * 1000).to_integral_value(rounding=ROUND_CEILING))


def format_milli(milli: int) -> str:
    """Return thousandths in the canonical form of the API server: whole numbers, or ``…m``."""
    if milli % 1000:
        return f"{milli}m"
    whole = milli // 1000
    for suffix in ("E", "P", "T", "G", "M", "k"):
        factor = int(_SUFFIX_FACTOR[suffix])
        if whole and whole % factor == 0:
            return f"{whole // factor}{suffix}"
    return str(whole)


def metric_milli(value: float) -> int:
    """Return what KEDA's metrics API serves for a value: three decimals, never below zero."""
    if not isfinite(value) or value < 0:
        return 0
    return int((Decimal(value) * 1000).to_integral_value(rounding=ROUND_HALF_EVEN))
