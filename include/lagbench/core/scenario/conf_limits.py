"""Limit what the conf of a Dag may name: the right to trigger a run is not a shell on the worker.

A conf names things of the catalog. A path, a command or a variable of a process reaches further: it
must be in the catalog's own file, or the deployer allows it on the worker. ``Reach`` marks the
fields of a scenario that do so. The command line is not limited: its caller has those rights
already (docs/trust.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import PurePath
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ConfigDict

from lagbench.errors import WrongInput

FOLDERS_VARIABLE, FIELDS_VARIABLE = "LAGBENCH_ALLOWED_FOLDERS", "LAGBENCH_ALLOWED_FIELDS"
EACH = "*"
"""In the name of a field: each element of a list."""
_POLICIES = ("policy", f"actions.{EACH}.policy", "second_group.policy")


class Reach(Enum):
    """Annotate a field of a scenario by which its writer reaches beyond the scenario."""

    FILE = "reads a file of the worker"
    PROCESS = "is what a process runs, or gets"


def reaching_fields(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, Reach]]:
    """Yield the dotted fields below a model that reach further, e.g. ``actions.*.env``."""
    for name, info in model.model_fields.items():
        reach = next((found for found in info.metadata if isinstance(found, Reach)), None)
        if reach is not None:
            yield f"{above}{name}", reach
            continue
        for part, inner in models_in(info.annotation):
            yield from reaching_fields(inner, f"{above}{name}.{part}")


@dataclass(frozen=True, slots=True)
class ConfLimits:
    """The things that a conf may name beside those of the catalog."""

    fields: Mapping[str, Reach]
    """All that reach further."""
    allowed_folders: tuple[PurePath, ...] = ()
    """With no link in their paths."""
    allowed_fields: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    """Paths that the catalog itself names: of an experiment's cell."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """The settings of that cell."""

    def with_policies_of(self, own: Mapping[str, Any]) -> ConfLimits:
        """Return the limits of a scenario whose catalog's file has the data ``own``.

        The deployer wrote its policies' paths, and they begin in the file's folder.
        """
        named = (_values(own, pattern.split(".")) for pattern in _POLICIES)
        paths = {str(policy) for found in named for _, policy in found}
        return replace(self, names=self.names | paths)

    def require_folder(self, name: str, given: str, file: PurePath) -> None:
        """Reject a path in a conf; ``file`` is what it leads to when links are followed."""
        if given in self.names or any(file.is_relative_to(one) for one in self.allowed_folders):
            return
        below = " or ".join(str(folder) for folder in self.allowed_folders)
        allowed = f"a path below {below}" if below else f"no path: {FOLDERS_VARIABLE} allows none"
        allowed = f"a name of the catalog; in the conf of a Dag {allowed}"
        raise WrongInput(where="conf", field=name, value=given, allowed=allowed)

    def require_fields(
        self,
        data: Mapping[str, Any],
        own: Mapping[str, Any],
        resolved: Callable[[str, str], PurePath],
    ) -> None:
        """Reject a scenario's data that reach further than ``own``, the data of the catalog.

        :param resolved: return the file that a field's path leads to.
        """
        for pattern, reach in self.fields.items():
            known = dict(_values(own, pattern.split(".")))
            for place, value in _values(data, pattern.split(".")):
                if place in known and known[place] == value:
                    continue
                if pattern not in self.allowed_fields:
                    allowed = (
                        "what the catalog's file has; with it in the conf of a Dag only if "
                        f"{FIELDS_VARIABLE} of the worker has {pattern}"
                    )
                    raise WrongInput(where="conf", field=place, value=value, allowed=allowed)
                if reach is Reach.FILE:
                    self.require_folder(place, str(value), resolved(place, str(value)))


def _values(data: Any, pattern: Sequence[str], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what is there at a pattern, by its place; a mapping by its keys, nothing if empty."""
    if not pattern:
        if isinstance(data, Mapping):
            yield from ((f"{above}.{key}", value) for key, value in data.items())
        elif data is not None and data not in ("", [], ()):
            yield above, data
        return
    first, *rest = pattern
    if first == EACH:
        numbered = enumerate(data) if isinstance(data, Sequence) else ()
        inner: Iterator[tuple[Any, Any]] = iter(numbered)
    else:
        inner = iter([(first, data.get(first))] if isinstance(data, Mapping) else [])
    for name, value in inner:
        yield from _values(value, rest, f"{above}.{name}" if above else str(name))


def models_in(annotation: Any, part: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the models in a field's type, each with how a list between them is written."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield part, annotation
        return
    is_list = get_origin(annotation) in (tuple, list)
    for inner in get_args(annotation):
        yield from models_in(inner, f"{EACH}." if is_list else part)


class StrictModel(BaseModel):
    """A frozen model that takes no unknown field, and no number without an end."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
