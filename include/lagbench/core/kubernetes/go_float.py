"""Numbers with a fraction as Go reads them from a text: what it takes, and what it says if not."""

from __future__ import annotations

import re
from math import isinf

from lagbench.core.kubernetes.go_quote import go_quote

_DIGITS, _HEX_DIGITS = r"[0-9](?:_?[0-9])*", r"[0-9a-f](?:_?[0-9a-f])*"
_SPECIAL = re.compile(r"[+-]?inf(?:inity)?|nan", re.IGNORECASE)
_DECIMAL = re.compile(
    rf"[+-]?(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?", re.IGNORECASE
)
_HEXADECIMAL = re.compile(
    rf"[+-]?0x_?(?:{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})p[+-]?{_DIGITS}",
    re.IGNORECASE,
)


def go_float(text: str) -> float:
    """Return the number; ``ValueError`` with Go's message when there is none or it is too large."""
    if _SPECIAL.fullmatch(text):
        return float(text)
    try:
        number = _read(text.replace("_", ""), text)
    except OverflowError:
        number = float("inf")
    if isinf(number):
        raise ValueError(f"strconv.ParseFloat: parsing {go_quote(text)}: value out of range")
    return number


def _read(plain: str, text: str) -> float:
    if _DECIMAL.fullmatch(text):
        return float(plain)
    if _HEXADECIMAL.fullmatch(text):
        return float.fromhex(plain)
    raise ValueError(f"strconv.ParseFloat: parsing {go_quote(text)}: invalid syntax")
