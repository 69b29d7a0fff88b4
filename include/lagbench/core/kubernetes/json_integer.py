"""Whether a text is an integer to Go's JSON decoder, and what it says of one that is not."""

from __future__ import annotations

import json
import re

_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_JSON_LITERALS = ("true", "false", "null")
_JSON_KINDS = {'"': "string", "[": "array", "{": "object"}
_INT64 = (-(2**63), 2**63 - 1)


def json_integer_problem(text: str) -> str | None:
    """Return what Go's JSON decoder says about ``text`` as an int64; None when it is one."""
    text = text.lstrip(" \t\r\n")  # JSON allows blanks around a value
    match = _JSON_NUMBER.match(text)
    if match is None:
        return _other_value(text)
    rest = text[match.end() :].lstrip(" \t\r\n")
    if rest:
        return f"invalid character {_quoted(rest[0])} after top-level value"
    number = match.group()
    is_whole = number.lstrip("-").isdigit()
    if not is_whole or not _INT64[0] <= int(number) <= _INT64[1]:
        return f"json: cannot unmarshal number {number} into Go value of type int64"
    return None


def _other_value(text: str) -> str | None:
    """Return what the decoder says of a text that does not begin with a number."""
    if text.startswith("-"):
        return _after_minus(text)
    literal = next((word for word in _JSON_LITERALS if word[0] == text[0]), None)
    if literal is not None:
        return _not_a_literal(text, literal)
    if text[0] in _JSON_KINDS:
        return _not_a_number(text)
    return f"invalid character {_quoted(text[0])} looking for beginning of value"


def _not_a_number(text: str) -> str:
    """Return what the decoder says of a string, array or object."""
    try:
        json.loads(text)
    except ValueError:
        return "unexpected end of JSON input"
    return f"json: cannot unmarshal {_JSON_KINDS[text[0]]} into Go value of type int64"


def _not_a_literal(text: str, literal: str) -> str | None:
    """Return what the decoder says of a text that begins like true, false or null."""
    for read, expected in zip(text, literal, strict=False):
        if read != expected:
            return (
                f"invalid character {_quoted(read)} in literal {literal} (expecting '{expected}')"
            )
    if len(text) < len(literal):
        return "unexpected end of JSON input"
    rest = text[len(literal) :].lstrip(" \t\r\n")
    if rest:
        return f"invalid character {_quoted(rest[0])} after top-level value"
    if literal == "null":
        return None  # Go leaves the number at its zero value
    return "json: cannot unmarshal bool into Go value of type int64"


def _after_minus(text: str) -> str:
    if len(text) == 1:
        return "unexpected end of JSON input"
    return f"invalid character {_quoted(text[1])} in numeric literal"


def _quoted(character: str) -> str:
    return r"'\''" if character == "'" else f"'{character}'"
