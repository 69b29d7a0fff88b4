"""Decide whether Go's JSON decoder accepts a text as a number, and give its message if not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_JSON_LITERALS = ("true", "false", "null")
_JSON_KINDS = {'"': "string", "[": "array", "{": "object"}
_OF_TYPE, _LITERAL = "Go value of type ", "numeric literal"
_INT64 = (-(2**63), 2**63 - 1)


def json_integer_problem(text: str) -> str | None:
    """Return what Go's JSON decoder says about ``text`` as an int64; None when it is one."""
    return _problem(text, "int64", _is_int64)


def json_float_problem(text: str) -> str | None:
    """Return what Go's JSON decoder says about ``text`` as a float64; None when it is one."""
    return _problem(text, "float64", lambda number: isfinite(float(number)))


def _is_int64(number: str) -> bool:
    return number.lstrip("-").isdigit() and _INT64[0] <= int(number) <= _INT64[1]


def _problem(text: str, kind: str, fits: Callable[[str], bool]) -> str | None:
    text = text.lstrip(" \t\r\n")  # JSON allows blanks around a value
    match = _JSON_NUMBER.match(text)
    if match is None:
        return _other_value(text, kind)
    rest = text[match.end() :].lstrip(" \t\r\n")
    if rest:
        return _after_number(text, match.group(), rest)
    number = match.group()
    return None if fits(number) else f"json: cannot unmarshal number {number} into {_OF_TYPE}{kind}"


def _after_number(text: str, number: str, rest: str) -> str:
    """Return the decoder's message for the text after a number, or for a number that is cut off."""
    behind = text[len(number) :]
    is_exponent = behind[:1] in {"e", "E"} and not re.search("[eE]", number)
    if behind[:1] == "." and not re.search("[.eE]", number):
        return f"invalid character {_quoted(behind[1:2] or ' ')} after decimal point in {_LITERAL}"
    if is_exponent:
        signed = behind[1:].removeprefix("+").removeprefix("-")
        return f"invalid character {_quoted(signed[:1] or ' ')} in exponent of {_LITERAL}"
    return f"invalid character {_quoted(rest[0])} after top-level value"


def _other_value(text: str, kind: str) -> str | None:
    """Return what the decoder says of a text that does not begin with a number."""
    if text.startswith("-"):
        return f"invalid character {_quoted(text[1:2] or ' ')} in {_LITERAL}"
    literal = next((word for word in _JSON_LITERALS if word[0] == text[0]), None)
    if literal is not None:
        return _not_a_literal(text, literal, kind)
    if text[0] in _JSON_KINDS:
        return _not_a_number(text, kind)
    return f"invalid character {_quoted(text[0])} looking for beginning of value"


def _not_a_number(text: str, kind: str) -> str:
    """Return what the decoder says of a string, array or object."""
    try:
        json.loads(text)
    except ValueError:
        return "unexpected end of JSON input"
    return f"json: cannot unmarshal {_JSON_KINDS[text[0]]} into {_OF_TYPE}{kind}"


def _not_a_literal(text: str, literal: str, kind: str) -> str | None:
    """Return what the decoder says of a text that begins like true, false or null."""
    for read, expected in zip(text, literal, strict=False):
        if read != expected:
            return (
                f"invalid character {_quoted(read)} in literal {literal} (expecting '{expected}')"
            )
    if len(text) < len(literal):
        expected = literal[len(text)]
        return f"invalid character ' ' in literal {literal} (expecting '{expected}')"
    rest = text[len(literal) :].lstrip(" \t\r\n")
    if rest:
        return f"invalid character {_quoted(rest[0])} after top-level value"
    if literal == "null":
        return None  # Go leaves the number at its zero value
    return f"json: cannot unmarshal bool into {_OF_TYPE}{kind}"


def _quoted(character: str) -> str:
    return r"'\''" if character == "'" else f"'{character}'"
