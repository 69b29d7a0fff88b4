"""Where parameters come from beside the metadata: TriggerAuthentications and containers.

As in KEDA, what is missing (the object, a Secret, a key) gives an empty value, not an error: the
trigger's own checks then say what they lack.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.triggers.trigger_parameters import NotSupported
from lagbench.core.object_schema import refuse_unknown_fields
from lagbench.errors import WrongInput

API_VERSION = "keda.sh/v1alpha1"

AuthenticationKind = Literal["TriggerAuthentication", "ClusterTriggerAuthentication"]

KINDS: tuple[AuthenticationKind, ...] = ("TriggerAuthentication", "ClusterTriggerAuthentication")

_REFERENCES: tuple[tuple[str, Literal["ConfigMap", "Secret"]], ...] = (
    ("configMapTargetRef", "ConfigMap"),
    ("secretTargetRef", "Secret"),
)

_READ_HERE = ("secretTargetRef", "env", "configMapTargetRef")

_ONLY_IN_KEDA = (
    "podIdentity",
    "hashiCorpVault",
    "azureKeyVault",
    "gcpSecretManager",
    "awsSecretManager",
    "boundServiceAccountToken",
    "oauth2",
    "azureServicePrincipal",
    "filePath",
)

Values = Mapping[str, str]

ValuesOf = Callable[[Literal["ConfigMap", "Secret"], str], Values | None]
"""The values of a ConfigMap or a Secret by its kind and name; None: not known."""


class AuthenticationRef(BaseModel):
    """A trigger's reference to the object with its secrets."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: AuthenticationKind = "TriggerAuthentication"


def resolve_authentication(
    authentication: Mapping[str, Any],
    *,
    where: str,
    values_of: ValuesOf,
    environment: Callable[[], Mapping[str, Values]],
) -> dict[str, str]:
    """Return parameter -> value of a TriggerAuthentication or its cluster-wide kind.

    ``values_of`` looks into the authentication's namespace (KEDA's own for the cluster-wide kind);
    ``environment`` returns the variables of the target's containers by their names, those of the
    one that KEDA would take under "". A source that only KEDA has is ``NotSupported``.
    """
    kind = authentication.get("kind")
    if authentication.get("apiVersion") != API_VERSION or kind not in KINDS:
        seen = f"{authentication.get('apiVersion')} {kind}"
        allowed = " or ".join(f"{API_VERSION} {name}" for name in KINDS)
        raise WrongInput(where=where, field="kind", value=seen, allowed=allowed)
    spec = refuse_unknown_fields(
        authentication.get("spec"), (*_READ_HERE, *_ONLY_IN_KEDA), where=where, field="spec"
    )
    for name in _ONLY_IN_KEDA:
        if spec.get(name):
            allowed = f"{', '.join(_READ_HERE)}: KEDA has {name}, the embedded autoscaler does not"
            raise NotSupported(where=where, field=f"spec.{name}", value="…", allowed=allowed)
    resolved: dict[str, str] = {}
    # In KEDA's order: a parameter that several sources name has the last one's value.
    for parameter, name, container in _entries(spec, "env", "containerName", where, ("name",)):
        resolved[parameter] = environment().get(container, {}).get(name, "")
    for source, of in _REFERENCES:
        for parameter, name, key in _entries(spec, source, "key", where, ("name", "key")):
            resolved[parameter] = (values_of(of, name) or {}).get(key, "")
    return resolved


def decode_secret(secret: Mapping[str, Any], *, where: str) -> dict[str, str]:
    """Return the values of a Secret's ``data`` (base64) with ``stringData`` on top."""
    decoded: dict[str, str] = {}
    for key, value in (secret.get("data") or {}).items():
        try:
            decoded[key] = b64decode(str(value), validate=True).decode()
        except (Base64Error, UnicodeDecodeError) as error:
            raise WrongInput(
                where=where, field=f"data.{key}", value="…", allowed="base64 of UTF-8 text"
            ) from error
    return {**decoded, **(secret.get("stringData") or {})}


def _entries(
    spec: Mapping[str, Any], source: str, third: str, where: str, required: Sequence[str]
) -> list[tuple[str, str, str]]:
    """Return (parameter, name, ``third``) of each entry of one source."""
    given = spec.get(source) or []
    if not isinstance(given, list):
        raise WrongInput(where=where, field=f"spec.{source}", value="…", allowed="a list")
    entries: list[tuple[str, str, str]] = []
    for index, item in enumerate(given):
        field_name = f"spec.{source}[{index}]"
        known = ("parameter", "name", third)
        entry = refuse_unknown_fields(item, known, where=where, field=field_name)
        for name in ("parameter", *required):
            if not isinstance(entry.get(name), str) or not entry[name]:
                allowed = "a text that is not empty"
                field = f"{field_name}.{name}"
                raise WrongInput(where=where, field=field, value=entry.get(name), allowed=allowed)
        entries.append((entry["parameter"], entry["name"], str(entry.get(third) or "")))
    return entries


_REFERENCE = re.compile(r"\$(?:\$|\(([^)]+)\))")

_SOURCES: tuple[tuple[str, Literal["ConfigMap", "Secret"]], ...] = (
    ("configMap", "ConfigMap"),
    ("secret", "Secret"),
)


@dataclass(frozen=True)
class ContainerVariables(Mapping[str, str]):
    """The known values of variables; an unknown one reads ``$(NAME)``.

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


def target_variables(
    workload: Any, wanted: object, values_of: ValuesOf
) -> dict[str, ContainerVariables]:
    """Return the variables of a workload's containers by name.

    Under "" are those of the ``wanted`` one, or of the first; without it there is no "".
    """
    for name in ("spec", "template", "spec"):
        workload = workload.get(name) if isinstance(workload, Mapping) else None
    containers = list(_rows(workload.get("containers") if isinstance(workload, Mapping) else None))
    found = {str(item.get("name")): container_variables(item, values_of) for item in containers}
    meant = str(wanted) if wanted else next(iter(found), "")
    return {**found, "": found[meant]} if meant in found else found


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
