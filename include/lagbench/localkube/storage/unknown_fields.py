"""Find fields that the API does not have, in objects of kinds that the official client knows.

kubectl requests ``fieldValidation=Strict``: a misspelt field is an error. The client's models are
generated from the API's own schemas, so they define all fields. They are imported on demand,
because the import takes most of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.localkube.storage.resources import EVENT, Resource

_LIST = re.compile(r"list\[(.+)\]")
_MAP = re.compile(r"dict\(str, (.+)\)")


def unknown_fields(resource: Resource, obj: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields of ``obj`` that its kind does not have, sorted."""
    prefix = "CoreV1" if resource == EVENT else resource.version.capitalize()
    return sorted(_unknown(f"{prefix}{resource.kind}", obj, ""))


def _unknown(type_name: str, value: Any, path: str) -> Iterator[str]:
    from kubernetes.client import models

    if (inner := _LIST.fullmatch(type_name)) is not None:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _unknown(inner[1], item, f"{path}[{index}]")
    elif (inner := _MAP.fullmatch(type_name)) is not None:
        for name, item in value.items() if isinstance(value, Mapping) else ():
            yield from _unknown(inner[1], item, f"{path}.{name}")
    elif (model := getattr(models, type_name, None)) is not None and isinstance(value, Mapping):
        types = {model.attribute_map[name]: of for name, of in model.openapi_types.items()}
        for name, item in value.items():
            place = f"{path}.{name}" if path else str(name)
            if name in types:
                yield from _unknown(types[name], item, place)
            else:
                yield place
