"""KEDA's typed reading of a trigger's parameters: sources in order, types, gathered errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from lagbench.core.kubernetes import json_integer_problem

# The spellings that Go's ParseBool knows; nothing else is a boolean for KEDA.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_SOURCE_NAME = {"metadata": "triggerMetadata", "env": "resolvedEnv", "auth": "authParams"}


@dataclass(frozen=True, slots=True)
class ParameterSources:
    """Where a trigger's parameters come from: its metadata, resolved secrets, the container."""

    metadata: Mapping[str, str]
    auth: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


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

    def secret(self, name: str) -> SecretStr | None:
        """Return a value that only a TriggerAuthentication may hold; None when there is none."""
        found = self._find(name, ("auth",))
        return None if found is None else SecretStr(found)

    def refuse_deprecated(self, name: str, message: str) -> None:
        """Gather ``message`` when the trigger still holds a parameter that KEDA has removed."""
        if self._find(name, ("metadata",)) is not None:
            self.errors.append(message)

    def boolean(
        self, name: str, *, order: Sequence[str] = ("metadata",), default: bool = False
    ) -> bool:
        """Return a Go boolean; anything that ParseBool refuses is an error."""
        found = self._find(name, order)
        if found is None:
            return default
        value = go_boolean(found.strip())
        if value is not None:
            return value
        shown = self._shown(name, order, found)
        self.errors.append(
            f'unable to set param "{name}" value "{shown}": unable to parse boolean value '
            f'"{shown}": strconv.ParseBool: parsing "{shown}": invalid syntax'
        )
        return False

    def integer(self, name: str, *, default: int) -> int:
        """Return an integer in JSON's notation (no plus sign, no leading zero) within int64."""
        found = self._find(name, ("metadata",))
        return default if found is None else self._integer(name, found)

    def required_integer(self, name: str) -> int:
        """Return an integer that KEDA insists on; missing is an error."""
        found = self.required_text(name, order=("metadata",))
        return self._integer(name, found) if found else 0

    def _integer(self, name: str, found: str) -> int:
        problem = json_integer_problem(found)
        if problem is None:
            return 0 if found.strip() == "null" else int(found)
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
        shown = self._shown(name, order, found)
        self.errors.append(
            f'parameter "{name}" value "{shown}" must be one of [{" ".join(allowed)}]'
        )
        return ""

    def _shown(self, name: str, order: Sequence[str], found: str) -> str:
        """Return the value for an error's text; what a secret holds is not told."""
        other = [source for source in order if source != "auth"]
        is_secret = "auth" in order and self._find(name, other) is None
        return "(from the TriggerAuthentication)" if is_secret else found

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


def go_boolean(text: str) -> bool | None:
    """Return what Go's ParseBool reads; None when it reads nothing."""
    return text in _TRUE if text in _TRUE | _FALSE else None


def normalize_metric_name(name: str) -> str:
    """Return ``name`` with the characters that a metric name may not hold turned into ``-``."""
    return name.translate(dict.fromkeys(map(ord, "/.:%()"), "-"))
