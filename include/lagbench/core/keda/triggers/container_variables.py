"""The variables of a scale target's container, which ``...FromEnv`` parameters name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

ValuesOf = Callable[[Literal["ConfigMap", "Secret"], str], Mapping[str, str] | None]
"""The values of a ConfigMap or a Secret by its kind and name; None: not known."""
_REFERENCE = re.compile(r"\$(?:\$|\(([^)]+)\))")
_SOURCES: tuple[tuple[str, Literal["ConfigMap", "Secret"]], ...] = (
    ("configMap", "ConfigMap"),
    ("secret", "Secret"),
)


@dataclass(frozen=True)
class ContainerVariables(Mapping[str, str]):
    """The variables as far as they are known; an unknown one reads ``$(NAME)``.

    ``unknown``: the names of variables whose values are not known; None: any name may be one.
    """

    values_known: Mapping[str, str] = field(default_factory=dict, repr=False)
    unknown: frozenset[str] | None = None

    def __getitem__(self, name: str) -> str:
        """Return the value; an unknown one is a reference to it."""
        if name in self.values_known:
            return self.values_known[name]
        if name and (self.unknown is None or name in self.unknown):
            return f"$({name})"
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the known names."""
        return iter(self.values_known)

    def __len__(self) -> int:
        """Count the known ones."""
        return len(self.values_known)


def is_unknown(value: str) -> bool:
    """Return whether a parameter's value has a variable in it that is not known."""
    return "$(" in value


def container_variables(container: Mapping[str, Any], values_of: ValuesOf) -> ContainerVariables:
    """Return the variables as KEDA resolves them: envFrom first; fields of the pod are left out."""
    known: dict[str, str] = {}
    unknown: set[str] = set()
    is_open = False
    for source in _rows(container.get("envFrom")):
        name, found = _values(source, "Ref", values_of)
        is_open |= found is None
        known |= {f"{source.get('prefix') or ''}{key}": text for key, text in (found or {}).items()}
    for item in _rows(container.get("env")):
        variable, value = str(item.get("name") or ""), str(item.get("value") or "")
        given = item.get("valueFrom")
        if value:
            value = _REFERENCE.sub(lambda found: _resolved(found, known), value)
        elif isinstance(given, Mapping):
            name, found = _values(given, "KeyRef", values_of)
            if not name:
                continue
            if found is None:
                unknown.add(variable)
                known.pop(variable, None)
                continue
            value = found.get(str((given.get(name) or {}).get("key")), "")
        known[variable] = value
        unknown.discard(variable)
    return ContainerVariables(known, None if is_open else frozenset(unknown))


def _values(
    given: Mapping[str, Any], suffix: str, values_of: ValuesOf
) -> tuple[str, Mapping[str, str] | None]:
    """Return the field that refers to a ConfigMap or a Secret, and its values."""
    for prefix, kind in _SOURCES:
        reference = given.get(f"{prefix}{suffix}")
        if isinstance(reference, Mapping):
            return f"{prefix}{suffix}", values_of(kind, str(reference.get("name") or ""))
    return "", {}


def _resolved(found: re.Match[str], known: Mapping[str, str]) -> str:
    return "$" if found[1] is None else known.get(found[1], found[0])


def _rows(given: object) -> Iterator[Mapping[str, Any]]:
    yield from (
        item for item in (given if isinstance(given, list) else ()) if isinstance(item, Mapping)
    )
