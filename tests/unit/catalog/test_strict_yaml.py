"""YAML is read strictly: keys are text, and a date is the text that was written."""

import pytest

from lagbench.catalog.strict_yaml import parse_mapping
from lagbench.errors import WrongInput


@pytest.mark.parametrize("key", ["1", "2024-01-01", "true", "1.5", "on"])
def test_a_key_is_the_text_as_it_is_written(key: str) -> None:
    """A key that looks like a number, a date or a truth value is a text, as for kubectl."""
    assert parse_mapping(f"{key}: x\ninner: {{{key}: y}}", where="f") == {
        key: "x",
        "inner": {key: "y"},
    }


@pytest.mark.parametrize("text", ["? [a, b]\n: x", "? ~\n: x", "a: {~: x}"])
def test_a_key_without_a_text_is_refused_by_its_line(text: str) -> None:
    """A list as a key, and no key, are wrong input that names the line."""
    with pytest.raises(WrongInput, match="line 1 "):
        parse_mapping(text, where="f")


def test_a_merged_mapping_gives_its_keys() -> None:
    """Keys from a merge are keys of the mapping, and its own ones take precedence."""
    text = "base: &base {1: a, b: c}\nown: {<<: *base, b: d}"

    assert parse_mapping(text, where="f")["own"] == {"1": "a", "b": "d"}


def test_a_date_is_the_text_that_was_written() -> None:
    """YAML 1.2 has no dates: the value is shown as its author wrote it."""
    assert parse_mapping("at: 2024-01-01", where="f") == {"at": "2024-01-01"}
