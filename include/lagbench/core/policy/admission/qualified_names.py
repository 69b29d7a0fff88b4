"""Give the API server's message for a name, label or key that breaks the rules for names."""

from __future__ import annotations

import re
from collections.abc import Iterator

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = rf"({_NAME_PART})?"
_LETTERS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
_SUBDOMAIN_LENGTH, _LABEL_LENGTH = 253, 63
_EMPTY = "must be non-empty"


def subdomain_problems(name: str) -> Iterator[str]:
    """Yield what is wrong with the name of an object."""
    if len(name.encode()) > _SUBDOMAIN_LENGTH:
        yield _too_long(_SUBDOMAIN_LENGTH)
    if not re.fullmatch(_SUBDOMAIN, name):
        yield (
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character (e.g. "
            f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
        )


def label_value_problems(value: str) -> Iterator[str]:
    """Yield what is wrong with the value of a label."""
    if len(value.encode()) > _LABEL_LENGTH:
        yield _too_long(_LABEL_LENGTH)
    if not re.fullmatch(_LABEL_VALUE, value):
        yield (
            f"a valid label must be an empty string or consist of {_LETTERS} character (e.g. "
            "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
            f"'{_LABEL_VALUE}')"
        )


def qualified_name_problems(key: str) -> Iterator[str]:
    """Yield what is wrong with a key: a name, with the domain of its owner before it or not."""
    *prefix, name = key.split("/")
    if len(prefix) > 1:
        yield (
            f"a qualified name {_name_rule()} with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')"
        )
        return
    if prefix == [""]:
        yield f"prefix part {_EMPTY}"
    elif prefix:
        yield from (f"prefix part {problem}" for problem in subdomain_problems(prefix[0]))
    if not name:
        yield f"name part {_EMPTY}"
    elif len(name.encode()) > _LABEL_LENGTH:
        yield f"name part {_too_long(_LABEL_LENGTH)}"
    if not re.fullmatch(_NAME_PART, name):
        yield f"name part {_name_rule()}"


def _name_rule() -> str:
    return (
        f"must consist of {_LETTERS} character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
        f"used for validation is '{_NAME_PART}')"
    )


def _too_long(limit: int) -> str:
    return f"must be no more than {limit} characters"
