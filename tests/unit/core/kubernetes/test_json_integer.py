"""Integers as Go's JSON decoder reads them."""

import pytest

from lagbench.core.kubernetes.json_integer import json_integer_problem


@pytest.mark.parametrize("text", ["0", "-1", " 10 ", "9223372036854775807", "null"])
def test_integers(text: str) -> None:
    """Blanks around a number are none of its business, and null is the zero value."""
    assert json_integer_problem(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("+1", "invalid character '+' looking for beginning of value"),
        ("abc", "invalid character 'a' looking for beginning of value"),
        ("0x1", "invalid character 'x' after top-level value"),
        ("-", "unexpected end of JSON input"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("1.0", "json: cannot unmarshal number 1.0 into Go value of type int64"),
        ("1e3", "json: cannot unmarshal number 1e3 into Go value of type int64"),
        ("9223372036854775808", "json: cannot unmarshal number 9223372036854775808 into"),
        ("five", "invalid character 'i' in literal false (expecting 'a')"),
        ("true", "json: cannot unmarshal bool into Go value of type int64"),
        ("nul", "unexpected end of JSON input"),
        ("falsey", "invalid character 'y' after top-level value"),
        ('"10"', "json: cannot unmarshal string into Go value of type int64"),
        ("[10]", "json: cannot unmarshal array into Go value of type int64"),
        ('{"a": 1}', "json: cannot unmarshal object into Go value of type int64"),
        ('"10', "unexpected end of JSON input"),
        ("'10'", r"invalid character '\'' looking for beginning of value"),
    ],
)
def test_what_is_no_integer(text: str, said: str) -> None:
    """The reason is the decoder's."""
    assert (json_integer_problem(text) or "").startswith(said)
