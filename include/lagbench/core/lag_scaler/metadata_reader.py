"""Read a scaler's metadata: sources in order, types, limits, and a list of all problems."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from lagbench.core.keda.triggers import go_boolean
from lagbench.core.lag_scaler.metadata_keys import (
    ENVIRONMENT_DEFAULTS,
    FROM_ENV,
    SECRET_KEYS,
)
from lagbench.errors import WrongInput
from lagbench.shown import cut

_Choice = TypeVar("_Choice", bound=str)
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_DECIMAL = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_HIDDEN = "(not shown)"
# A message goes to KEDA's log and into the status of an object; gRPC's headers hold 8 KB.
_SHOWN_PROBLEMS = 5


@dataclass(frozen=True, slots=True)
class MetadataProblem:
    """One field that cannot be used: its value as written (never a secret) and what is allowed."""

    field: str
    value: str
    allowed: str


class InvalidMetadata(WrongInput):
    """Metadata that the scaler rejects; ``problems`` lists every field, not only the first."""

    def __init__(self, problems: Sequence[MetadataProblem]) -> None:
        """Show all problems; ``field``, ``value`` and ``allowed`` are those of the first."""
        first = problems[0]
        super().__init__(
            where="scaler metadata", field=first.field, value=first.value, allowed=first.allowed
        )
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return one sentence for each of the first problems; long values are cut."""
        said = [
            f"{cut(problem.field)} = {cut(problem.value)!r} is not allowed; "
            f"allowed: {problem.allowed}"
            for problem in self.problems[:_SHOWN_PROBLEMS]
        ]
        more = len(self.problems) - len(said)
        return "scaler metadata: " + "; ".join([*said, *([f"{more} more"] if more else [])])

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling."""
        return (InvalidMetadata, (self.problems,))


@dataclass(slots=True)
class MetadataReader:
    """Read one object's metadata; an unusable value is noted and its default is used."""

    metadata: Mapping[str, str]
    environment: Mapping[str, str]
    allowed_servers: Sequence[str] = ("*",)
    problems: list[MetadataProblem] = field(default_factory=list)

    def refuse(self, name: str, value: str, allowed: str) -> None:
        """Note one more problem; the value of a secret is not kept."""
        shown = _HIDDEN if name in SECRET_KEYS else value
        self.problems.append(MetadataProblem(name, shown, allowed))

    def given(self, name: str) -> str | None:
        """Return the value as the object itself gives it, trimmed; blank counts as missing."""
        for key in (name, name + FROM_ENV):
            value = self.metadata.get(key, "").strip()
            if value:
                return value
        return None

    def find(self, name: str) -> str | None:
        """Return the value given, else the server's default for all objects."""
        value = self.given(name)
        if value is None and name in ENVIRONMENT_DEFAULTS:
            value = self.environment.get(ENVIRONMENT_DEFAULTS[name], "").strip() or None
        return value

    def text(self, name: str, default: str = "") -> str:
        """Return a text unchanged."""
        value = self.find(name)
        return default if value is None else value

    def required(self, name: str, *, longest: int) -> str:
        """Return a required text of at most ``longest`` characters."""
        value = self.find(name)
        if value is not None and len(value) > longest:
            self.refuse(name, value, f"at most {longest} characters")
            return ""
        if value is None:
            allowed = f"a value here, in {name}{FROM_ENV}"
            if name in ENVIRONMENT_DEFAULTS:
                allowed += f" or in the server's {ENVIRONMENT_DEFAULTS[name]}"
            self.refuse(name, "", allowed)
        return value or ""

    def integer(self, name: str, default: int, *, least: int, most: int) -> int:
        """Return a whole number between ``least`` and ``most``."""
        value = self.find(name)
        if value is None:
            return default
        if _INTEGER.fullmatch(value) and least <= int(value) <= most:
            return int(value)
        self.refuse(name, value, f"a whole number from {least} to {most}")
        return default

    def seconds(self, name: str, default: float, *, least: float, most: float) -> float:
        """Return a duration in seconds, decimals allowed."""
        value = self.find(name)
        if value is None:
            return default
        if _DECIMAL.fullmatch(value) and least <= float(value) <= most:
            return float(value)
        self.refuse(name, value, f"seconds from {least:g} to {most:g}, such as 30 or 2.5")
        return default

    def flag(self, name: str) -> bool:
        """Return a Go boolean, as KEDA reads its own triggers; missing is false."""
        value = self.find(name)
        if value is None:
            return False
        read = go_boolean(value)
        if read is None:
            self.refuse(name, value, "true or false")
        return bool(read)

    def choice(self, name: str, allowed: Sequence[_Choice]) -> _Choice:
        """Return one of ``allowed``, the first when nothing is given."""
        value = self.find(name)
        if value is None:
            return allowed[0]
        for option in allowed:
            if option == value:
                return option
        self.refuse(name, value, " or ".join(allowed))
        return allowed[0]

    def refuse_literal_secrets(self) -> None:
        """Note every secret that is written in the metadata itself, whatever the source."""
        for name in SECRET_KEYS:
            if self.metadata.get(name, "").strip():
                allowed = f"{name}{FROM_ENV}: the name of a container variable from a Secret"
                self.refuse(name, "", allowed)

    def login(self, name: str, default_name: str | None) -> str:
        """Return a part of a login; a secret is taken by reference only.

        ``default_name``: the variable of the server's environment, None if the login may not be
        sent to the address in the object.
        """
        value = self.given(name)
        if name in SECRET_KEYS:
            value = self.metadata.get(name + FROM_ENV, "").strip() or None
        if value is None and default_name is not None:
            value = self.environment.get(default_name, "").strip() or None
        return value or ""
