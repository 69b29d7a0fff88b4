"""KEDA's typed reading of a trigger's parameters: sources in order, types, gathered errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

# The spellings that Go's ParseBool knows; nothing else is a boolean for KEDA.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_SOURCE_NAME = {"metadata": "triggerMetadata", "env": "resolvedEnv", "auth": "authParams"}
_INT64 = (-(2**63), 2**63 - 1)


@dataclass(frozen=True, slots=True)
class ParameterSources:
    """Where a trigger's parameters come from: its metadata, resolved secrets, the container."""

    metadata: Mapping[str, str]
    auth: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


class ParameterReader:
    """Reads one trigger's parameters; errors are gathered, the zero value stands in for each."""

    def __init__(self, sources: ParameterSources) -> None:
        """Read from ``sources``; ``errors`` starts empty."""
        self._sources = sources
        self.errors: list[str] = []

    def text(self, name: str, *, order: Sequence[str] = ("metadata",), default: str = "") -> str:
        """Return the first non-blank value in ``order``, as it was written, else ``default``."""
        found = self._find(name, order)
        return default if found is None else found

    def required_text(self, name: str, *, order: Sequence[str]) -> str:
        """Return the value of a parameter that KEDA insists on; missing is an error."""
        found = self._find(name, order)
        if found is None:
            listed = " ".join(_SOURCE_NAME[source] for source in order)
            self.errors.append(f'missing required parameter "{name}" in [{listed}]')
            return ""
        return found

    def boolean(
        self, name: str, *, order: Sequence[str] = ("metadata",), default: bool = False
    ) -> bool:
        """Return a Go boolean; anything that ParseBool refuses is an error."""
        found = self._find(name, order)
        if found is None:
            return default
        value = found.strip()
        if value in _TRUE or value in _FALSE:
            return value in _TRUE
        self.errors.append(
            f'unable to set param "{name}" value "{found}": unable to parse boolean value '
            f'"{found}": strconv.ParseBool: parsing "{found}": invalid syntax'
        )
        return False

    def integer(self, name: str, *, default: int) -> int:
        """Return an integer in JSON's notation (no plus sign, no leading zero) within int64."""
        found = self._find(name, ("metadata",))
        if found is None:
            return default
        problem = json_integer_problem(found)
        if problem is None:
            return int(found)
        self.errors.append(
            f'unable to set param "{name}" value "{found}": '
            f"unable to unmarshal to field type int64: {problem}"
        )
        return 0

    def choice(
        self,
        name: str,
        allowed: Sequence[str],
        *,
        order: Sequence[str] = ("metadata",),
        default: str,
    ) -> str:
        """Return a value whose comma-separated pieces are all members of ``allowed``."""
        found = self._find(name, order)
        if found is None:
            return default
        if all(piece.strip() in allowed for piece in found.split(",")):
            return found.strip()
        self.errors.append(
            f'parameter "{name}" value "{found}" must be one of [{" ".join(allowed)}]'
        )
        return ""

    def _find(self, name: str, order: Sequence[str]) -> str | None:
        for source in order:
            value = self._look_in(source, name)
            if value is not None and value.strip():
                return value
        return None

    def _look_in(self, source: str, name: str) -> str | None:
        if source == "metadata":
            return self._sources.metadata.get(name)
        if source == "auth":
            return self._sources.auth.get(name)
        variable = self._sources.metadata.get(f"{name}FromEnv", "")
        return self._sources.environment.get(variable)


def json_integer_problem(text: str) -> str | None:
    """Return what Go's JSON decoder says about ``text`` as an int64; None when it is one."""
    text = text.lstrip(" \t\r\n")  # JSON allows blanks around a value
    match = _JSON_NUMBER.match(text)
    if match is None:
        if text.startswith("-"):
            return _after_minus(text)
        return f"invalid character {_quoted(text[0])} looking for beginning of value"
    rest = text[match.end() :].lstrip(" \t\r\n")
    if rest:
        return f"invalid character {_quoted(rest[0])} after top-level value"
    number = match.group()
    is_whole = number.lstrip("-").isdigit()
    if not is_whole or not _INT64[0] <= int(number) <= _INT64[1]:
        return f"json: cannot unmarshal number {number} into Go value of type int64"
    return None


def _after_minus(text: str) -> str:
    if len(text) == 1:
        return "unexpected end of JSON input"
    return f"invalid character {_quoted(text[1])} in numeric literal"


def _quoted(character: str) -> str:
    return r"'\''" if character == "'" else f"'{character}'"
