"""Read Kubernetes objects from YAML or JSON as kubectl does, by YAML 1.1.

``no``, ``off`` and ``y`` are booleans, ``010`` is 8, ``12.0`` is 12, and ``10:30`` is a text. A
scenario is not a Kubernetes object: ``strict_yaml`` reads it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import yaml

from lagbench.catalog.strict_yaml import StrictLoader, parse_documents
from lagbench.core.kubernetes_values import parse_milli
from lagbench.errors import WrongInput
from pod_program.shown import looks_secret

_TAG = "tag:yaml.org,2002:"
_TRUTHS = {"y": True, "yes": True, "true": True, "on": True}

_TRUTHS |= {"n": False, "no": False, "false": False, "off": False}

_BOOLEANS = {
    spelt: truth
    for word, truth in _TRUTHS.items()
    for spelt in (word, word.capitalize(), word.upper())
}

_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO]?[0-7]+|0[bB][01]+|0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_IN_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


class _KubernetesLoader(StrictLoader):
    """The scalars and keys of the YAML library in kubectl."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> Any:
        if kind is not yaml.ScalarNode or not implicit[0]:
            return super().resolve(kind, value, implicit)  # type: ignore[no-untyped-call]
        if value in _BOOLEANS:
            return f"{_TAG}bool"
        if value in ("", "~", "null", "Null", "NULL"):
            return f"{_TAG}null"
        if value == "<<":
            return f"{_TAG}merge"
        is_number = _number(value) is not None or _NOT_IN_JSON.fullmatch(value)
        return f"{_TAG}float" if is_number else self.DEFAULT_SCALAR_TAG

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag in {f"{_TAG}bool", f"{_TAG}float"}:
                truth = _BOOLEANS.get(key.value)
                key.value = str(_number(key.value)) if truth is None else str(truth).lower()
                key.tag = self.DEFAULT_SCALAR_TAG
        super().flatten_mapping(node)

    def scan_to_next_token(self) -> None:
        """Skip blanks and comments; a tab is a blank except where a line's indentation is."""
        super().scan_to_next_token()
        while self.peek() == "\t" and (self.flow_level or not self.allow_simple_key):
            self.forward()
            super().scan_to_next_token()


def _number(text: str) -> int | float | None:
    """Return a number as JSON has it; None: the text is none. ``09`` is the float 9."""
    plain = text.replace("_", "") if text[:1] != "_" else text
    if _INTEGER.fullmatch(plain):
        return int(plain, 8 if re.match(r"[+-]?0[0-7]", plain) else 0)
    if not _FLOAT.fullmatch(plain):
        return None
    found = float(plain)
    if not isfinite(found):
        return None
    return int(found) if found.is_integer() and abs(found) < 1e21 else found


def _construct(_: yaml.SafeLoader, node: yaml.ScalarNode) -> Any:
    found = _BOOLEANS.get(node.value, _number(node.value))
    if found is None:
        problem = "neither a boolean nor a number that JSON has"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return found


for _name in ("bool", "int", "float"):
    _KubernetesLoader.add_constructor(f"{_TAG}{_name}", _construct)


def parse_objects(text: str, *, where: str, is_private: bool = False) -> list[Any]:
    """Return the documents as kubectl would send them, the items of a List one by one."""
    found = parse_documents(
        _documents(text.removeprefix("\ufeff")),
        where=where,
        loader=_KubernetesLoader,
        is_private=is_private,
    )
    return [item for document in found for item in _items(document)]


def _documents(text: str) -> str:
    """Return several JSON objects in a row, which kubectl also takes, as documents of YAML."""
    decoder, rest, objects = json.JSONDecoder(), text.strip(), list[str]()
    while rest.startswith("{"):
        try:
            _, end = decoder.raw_decode(rest)
        except ValueError:
            return text
        objects.append(rest[:end])
        rest = rest[end:].lstrip()
    return "\n---\n".join(objects) if len(objects) > 1 and not rest else text


def _items(document: Any) -> list[Any]:
    """Return what a list of objects holds; an item without a kind has the list's."""
    if not isinstance(document, dict) or not str(document.get("kind")).endswith("List"):
        return [document]
    items, kind = document.get("items"), document["kind"].removesuffix("List")
    if not isinstance(items, list | None):
        return [document]
    named = {"apiVersion": document.get("apiVersion"), "kind": kind} if kind else {}
    whole = [{**named, **item} if isinstance(item, dict) else item for item in items or []]
    return [inner for item in whole for inner in _items(item)]


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
    """Return the documents, workloads, ConfigMaps and Secrets as the API server has them."""
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
