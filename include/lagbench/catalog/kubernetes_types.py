"""Check a user's Kubernetes objects by their types, as the API server does when it reads them.

The types are those of Kubernetes' OpenAPI, which the models of its Python client carry. A null is
a field that is not given. A whole number may be written as ``8080.0``.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lagbench.core.kubernetes.quantity import parse_milli
from lagbench.errors import WrongInput
from lagbench.shown import looks_secret

_KINDS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "ConfigMap": "v1", "Secret": "v1"}
_COLLECTION = re.compile(r"(list|dict)\[(?:str, )?(\w+)\]")
_MISSING = re.compile(r"Invalid value for `(\w+)`, must not be `None`")
_QUANTITIES = {"requests", "limits", "overhead", "sizeLimit", "divisor"}
"""The OpenAPI calls them strings; the API server also takes numbers."""
_MOST = 2**31 - 1
_LOWEST = {
    "containerPort": 1,
    "failureThreshold": 1,
    "initialDelaySeconds": 0,
    "minReadySeconds": 0,
    "periodSeconds": 1,
    "port": 1,
    "replicas": 0,
    "successThreshold": 1,
    "terminationGracePeriodSeconds": 0,
    "timeoutSeconds": 1,
}
_ABSENT = {"name": ("",), "key": ("",), "mount_path": ("",)}
"""The empty text is none, where a name is meant."""
_VARIABLE = re.compile(r"[ -<>-~]+")  # printable, without =
_PORTS = {"containerPort": 65_535, "port": 65_535}


def typed_objects(documents: Sequence[Any], *, where: str) -> list[Any]:
    """Return the documents with their workloads, ConfigMaps and Secrets as the API server has them.

    Other documents stay as they are. A workload may lack its selector.

    :raises WrongInput: names the first field of another type than Kubernetes', by its place.
    """
    return [_typed(one, where) for one in documents]


def list_example(text: str) -> str:
    """Return a command line as the list that it is meant to be."""
    try:
        return f"a list: {json.dumps(shlex.split(text))}"
    except ValueError:  # a quote without its end
        return f"a list: {json.dumps([text])}"


def _typed(document: Any, where: str) -> Any:
    kind = document.get("kind") if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        return document
    version, spec = _KINDS[kind], document.get("spec")
    if kind != "Deployment":
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        where = f"{where} ({kind} {name})"
    if document.get("apiVersion") != version:
        raise WrongInput(
            where=where, field="apiVersion", value=document.get("apiVersion"), allowed=version
        )
    reader = _Reader(where, is_secret=kind == "Secret")
    if version != "apps/v1" or not isinstance(spec, Mapping):
        return reader.read(document, f"V1{kind}", "", "")
    whole = {**document, "spec": {"selector": {}, "serviceName": "", **spec}}
    found = reader.read(whole, f"V1{kind}", "", "")
    return found | {"spec": {key: one for key, one in found["spec"].items() if key in spec}}


@dataclass(frozen=True, slots=True)
class _Reader:
    where: str
    is_secret: bool

    def read(self, value: Any, kind: str, place: str, name: str) -> Any:
        """Return what the API server reads at ``place``, the field ``name`` of type ``kind``."""
        if collection := _COLLECTION.fullmatch(kind):
            of, inner = collection.groups()
            if of == "list":
                if not isinstance(value, list):
                    raise self._refuse(place, value, _list_of(inner, value))
                items = enumerate(value)
                return [self.read(one, inner, f"{place}[{n}]", name) for n, one in items]
            if not isinstance(value, Mapping):
                raise self._refuse(place, value, "a mapping of names to texts")
            return {
                key: self.read(one, inner, f"{place}.{key}", name) for key, one in value.items()
            }
        if kind in _SCALARS:
            return self._scalar(value, kind, place, name)
        return self._object({} if value is None else value, kind, place)

    def _object(self, value: Any, kind: str, place: str) -> dict[str, Any]:
        model = _model(kind)
        if not isinstance(value, Mapping):
            raise self._refuse(place, value, _mapping_with(kind))
        names = model.attribute_map
        given = {
            attribute: value[names[attribute]]
            for attribute in names
            if value.get(names[attribute]) not in (None, *_ABSENT.get(attribute, ()))
        }
        before = f"{place}." if place else ""
        if missing := _missing(model, given):
            raise self._refuse(f"{before}{names[missing]}", None, "a value: it is required")
        if kind == "V1EnvVar" and not _VARIABLE.fullmatch(str(given["name"])):
            raise self._refuse(f"{before}name", given["name"], "printable ASCII without =")
        secret = self.is_secret or looks_secret(str(value.get("name", "")))
        reader = _Reader(self.where, is_secret=secret)
        found = {
            names[attribute]: reader.read(
                one, model.openapi_types[attribute], f"{before}{names[attribute]}", names[attribute]
            )
            for attribute, one in given.items()
        }
        known = set(names.values())
        return found | {key: one for key, one in value.items() if key not in known}

    def _scalar(self, value: Any, kind: str, place: str, name: str) -> Any:
        if value is None:
            return {"str": "", "int": 0, "bool": False}.get(kind)
        if name == "fieldsV1":
            return value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if name in _QUANTITIES and (is_number or isinstance(value, str)):
            parse_milli(value, where=self.where, field=place)
            return value
        allowed, is_right = _SCALARS[kind]
        if not is_right(value):
            if kind == "str" and isinstance(value, bool | int | float):
                allowed = "a text, in quotes"
                if not self.is_secret:
                    allowed += f": {json.dumps(_as_written(value))}"
            raise self._refuse(place, value, allowed)
        if _is_number(value) and kind in ("int", "object"):
            value = int(value)
            low, high = _LOWEST.get(name, -_MOST), _PORTS.get(name, _MOST)
            if not low <= value <= high:
                raise self._refuse(place, value, f"a whole number from {low} to {high}")
        return value

    def _refuse(self, place: str, value: Any, allowed: str) -> WrongInput:
        """Return the error; of what may be a secret, and of a mapping or list, it has the type."""
        if isinstance(value, Mapping | list):
            value = "a list" if isinstance(value, list) else "a mapping"
        elif self.is_secret and value is not None:
            value = type(value).__name__
        return WrongInput(where=self.where, field=place, value=value, allowed=allowed)


def _is_number(value: Any) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return is_whole and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_SCALARS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "str": ("a text", _is_text),
    "datetime": ("a text", _is_text),
    "int": ("a whole number", _is_number),
    "bool": ("true or false", lambda value: isinstance(value, bool)),
    "object": ("a whole number or a text", lambda value: _is_text(value) or _is_number(value)),
}


def _as_written(value: bool | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _list_of(inner: str, value: Any) -> str:
    if isinstance(value, str) and inner == "str":
        return list_example(value)
    return "a list of texts" if inner in _SCALARS else f"a list, each item {_mapping_with(inner)}"


def _mapping_with(kind: str) -> str:
    """Return a description of a model by its fields that are required, or else by all."""
    model = _model(kind)
    required: dict[str, Any] = {}
    while missing := _missing(model, required):
        required[missing] = ...
    names = [model.attribute_map[name] for name in required or model.attribute_map]
    return f"a mapping with {', '.join(names)}" if required else f"a mapping of {', '.join(names)}"


def _missing(model: Any, given: Mapping[str, Any]) -> str | None:
    """Return the first required attribute that is not given: the model itself knows them."""
    try:
        model(**given)
    except ValueError as error:
        found = _MISSING.search(str(error))
        return found[1] if found else None
    return None


def _model(kind: str) -> Any:
    from kubernetes.client import models

    return getattr(models, kind)
