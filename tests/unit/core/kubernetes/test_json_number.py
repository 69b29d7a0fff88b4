"""Numbers as Go's JSON decoder reads them."""

import pytest

from lagbench.core.kubernetes.json_number import json_float_problem, json_integer_problem


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
        ("-", "invalid character ' ' in numeric literal"),
        ("-a", "invalid character 'a' in numeric literal"),
        ("1.0", "json: cannot unmarshal number 1.0 into Go value of type int64"),
        ("1e3", "json: cannot unmarshal number 1e3 into Go value of type int64"),
        ("9223372036854775808", "json: cannot unmarshal number 9223372036854775808 into"),
        ("five", "invalid character 'i' in literal false (expecting 'a')"),
        ("true", "json: cannot unmarshal bool into Go value of type int64"),
        ("nul", "invalid character ' ' in literal null (expecting 'l')"),
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


@pytest.mark.parametrize("text", ["0", "-1.5", "1e3", " 10 ", "9223372036854775808"])
def test_floats(text: str) -> None:
    """A float may have a fraction and an exponent, and be beyond an integer."""
    assert json_float_problem(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1e400", "json: cannot unmarshal number 1e400 into Go value of type float64"),
        ("1.", "invalid character ' ' after decimal point in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e", "invalid character ' ' in exponent of numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ("NaN", "invalid character 'N' looking for beginning of value"),
    ],
)
def test_what_is_no_float(text: str, said: str) -> None:
    """The reason is the decoder's, also for a number that breaks off."""
    assert json_float_problem(text) == said
