"""Kubernetes quantities as integers of a thousandth ("milli"), the unit of all HPA arithmetic."""

from __future__ import annotations

import base64
import json
import re
from datetime import UTC, datetime, timedelta
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
    value = parse_quantity(text, where=where, field=field)
    return int((value * 1000).to_integral_value(rounding=ROUND_CEILING))


def parse_quantity(text: str | float, *, where: str, field: str) -> Decimal:
    """Return a quantity ("10", "250m", "1.5Gi") as a number."""
    match = _NOTATION.fullmatch(str(text))
    if match is None:
        allowed = "a Kubernetes quantity such as 10, 250m or 1.5Gi"
        raise WrongInput(where=where, field=field, value=text, allowed=allowed)
    number, suffix = Decimal(match["number"]), match["suffix"]
    # "E" alone is exa; "e3" and "E3" are exponents.
    factor = _SUFFIX_FACTOR.get(suffix)
    return number * factor if factor is not None else number.scaleb(int(suffix[1:]))


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


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NS_PER_SECOND = 1_000_000_000


def parse_instant_ns(text: str) -> int:
    """Return an RFC 3339 instant in nanoseconds (microsecond resolution)."""
    return (datetime.fromisoformat(text) - _EPOCH) // timedelta(microseconds=1) * 1000


def format_instant(at_ns: int) -> str:
    """Return an instant as metav1.Time writes it: whole seconds, rounded down."""
    moment = _EPOCH + timedelta(seconds=at_ns // NS_PER_SECOND)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def floor_to_second_ns(at_ns: int) -> int:
    """Return the instant that is left after a round trip through metav1.Time."""
    return at_ns // NS_PER_SECOND * NS_PER_SECOND


HPA_SYNC_SECONDS = 15
"""Time between two syncs of an HPA (``--horizontal-pod-autoscaler-sync-period``)."""
DEFAULT_MAX_REPLICAS = 100
"""KEDA's default of ``maxReplicaCount``."""
HPA_TOLERANCE = 0.1
"""A metric within this share of its target changes nothing
(``--horizontal-pod-autoscaler-tolerance``)."""


def token_end_seconds(token: str) -> float | None:
    """Return the token's ``exp`` in Unix seconds; None: none is stated, or it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    padded = parts[1] + "=" * (-len(parts[1]) % 4)
    try:
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except ValueError:  # neither base64 nor JSON
        return None
    end = claims.get("exp") if isinstance(claims, dict) else None
    return float(end) if isinstance(end, int | float) else None
