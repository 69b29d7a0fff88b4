"""KEDA's typed reading of a trigger's parameters: sources in order, types, gathered errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import SecretStr

from lagbench.core.keda.triggers.go_duration import duration_problem, duration_seconds
from lagbench.core.kubernetes import go_quote, json_float_problem, json_integer_problem

# The spellings that Go's ParseBool knows; nothing else is a boolean for KEDA.
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
# What KEDA says of the JSON value null, before the stack of its panic.
_NULL = "failed to parse typed config *reflect.ValueError resulted in panic"
_SOURCE_NAME = {"metadata": "triggerMetadata", "env": "resolvedEnv", "auth": "authParams"}


@dataclass(frozen=True, slots=True)
class ParameterSources:
    """The sources of a trigger's parameters: its metadata, resolved secrets, the container."""

    metadata: Mapping[str, str]
    auth: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)


class ParameterReader:
    """Reads one trigger's parameters and collects errors; each wrong value counts as zero."""

    def __init__(self, sources: ParameterSources) -> None:
        """Read from ``sources``; ``errors`` starts empty."""
        self._sources = sources
        self.errors: list[str] = []

    def text(self, name: str, *, order: Sequence[str] = ("metadata",), default: str = "") -> str:
        """Return the first non-blank value in ``order`` without outer blanks, else ``default``."""
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
        """Return a Go boolean; any text that ParseBool rejects is an error."""
        found = self._find(name, order)
        if found is None:
            return default
        value = go_boolean(found)
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
        return int(found) if self._is_number(name, found, "int64", json_integer_problem) else 0

    def number(self, name: str) -> float:
        """Return a number in JSON's notation; 0 when it is absent."""
        found = self._find(name, ("metadata",))
        return 0.0 if found is None else self._number(name, found)

    def required_number(self, name: str) -> float:
        """Return a number that KEDA insists on; missing is an error."""
        found = self.required_text(name, order=("metadata",))
        return self._number(name, found) if found else 0.0

    def _number(self, name: str, found: str) -> float:
        return float(found) if self._is_number(name, found, "float64", json_float_problem) else 0.0

    def _is_number(
        self, name: str, found: str, kind: str, problem_of: Callable[[str], str | None]
    ) -> bool:
        problem = problem_of(found)
        if problem is not None:
            self._unset(name, found, f"unable to unmarshal to field type {kind}: {problem}")
        elif found == "null":
            self.errors.append(_NULL)
        return problem is None and found != "null"

    def seconds(self, name: str) -> float:
        """Return a duration of Go (``1m30s``), or a number of milliseconds; 0 when absent."""
        found = self._find(name, ("metadata",))
        if found is None:
            return 0.0
        problem = duration_problem(found)
        if problem is None:
            return duration_seconds(found)
        self._unset(name, found, problem)
        return 0.0

    def mapping(self, name: str) -> dict[str, str]:
        """Return ``key=value,key=value``; a key that comes twice has its last value."""
        found = self._find(name, ("metadata",))
        values: dict[str, str] = {}
        for piece in () if found is None else found.split(","):
            key, sign, value = piece.strip().partition("=")
            if not sign or "=" in value:
                expected = f"expected format key=value, got {go_quote(piece.strip())}"
                self._unset(name, found or "", expected)
                return {}
            values[key.strip()] = value.strip()
        return values

    def choices(
        self,
        names: Sequence[str],
        allowed: Sequence[str],
        *,
        order: Sequence[str],
        one_of: Sequence[str],
    ) -> tuple[str, ...]:
        """Return a list's pieces; not more than one of ``one_of``. It has several ``names``."""
        looked_in = ((source, name) for source in order for name in names)
        found = next((v for s, n in looked_in if (v := self._find(n, (s,))) is not None), None)
        pieces = tuple(piece.strip() for piece in found.split(",")) if found is not None else ()
        reported = f'parameter "{",".join(names)}" value {go_quote(found or "")} must'
        if not set(pieces) <= set(allowed):
            self.errors.append(f"{reported} be one of [{' '.join(allowed)}]")
        elif sum(piece in one_of for piece in pieces) > 1:
            self.errors.append(f"{reported} contain only one of [{' '.join(one_of)}]")
        else:
            return pieces
        return ()

    def _unset(self, name: str, found: str, problem: str) -> None:
        self.errors.append(f'unable to set param "{name}" value {go_quote(found)}: {problem}')

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
        """Return the value for an error's text; the content of a secret is not shown."""
        other = [source for source in order if source != "auth"]
        is_secret = "auth" in order and self._find(name, other) is None
        return "(from the TriggerAuthentication)" if is_secret else found

    def _find(self, name: str, order: Sequence[str]) -> str | None:
        for source in order:
            value = (self._look_in(source, name) or "").strip()
            if value:
                return value
        return None

    def _look_in(self, source: str, name: str) -> str | None:
        if source == "metadata":
            return self._sources.metadata.get(name)
        if source == "auth":
            return self._sources.auth.get(name)
        variable = self._sources.metadata.get(f"{name}FromEnv", "")
        return self._sources.environment.get(variable) if variable else None


def go_boolean(text: str) -> bool | None:
    """Return what Go's ParseBool reads; None when it reads nothing."""
    return text in _TRUE if text in _TRUE | _FALSE else None


def normalize_metric_name(name: str) -> str:
    """Return ``name`` with the characters that a metric name may not hold turned into ``-``."""
    return name.translate(dict.fromkeys(map(ord, "/.:%()"), "-"))
