"""The environment of a policy's target, from the objects beside the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from lagbench.core.keda.triggers.authentication import (
    ContainerVariables,
    container_variables,
    decode_secret,
)
from lagbench.core.policy.admission.cluster import Manifest, target_type
from lagbench.errors import WrongInput


def target_environment(policy: Manifest, objects: Sequence[Any]) -> ContainerVariables:
    """Return the variables of the container that KEDA reads: the named one, else the first.

    A target, a ConfigMap or a Secret that is not among the objects is not known.
    """
    home = _field(policy, "metadata", "namespace")
    near = [
        item
        for item in objects
        if isinstance(item, Mapping)
        and (home is None or _field(item, "metadata", "namespace") in (home, None))
    ]
    target = _field(policy, "spec", "scaleTargetRef")
    target = target if isinstance(target, Mapping) else {}

    def found(kind: str, name: str) -> Manifest | None:
        for item in near:
            if (item.get("kind"), _field(item, "metadata", "name")) == (kind, name):
                return item
        return None

    def values_of(kind: Literal["ConfigMap", "Secret"], name: str) -> Mapping[str, str] | None:
        given = found(kind, name)
        if given is None:
            return None
        try:
            values = decode_secret(given, where=name) if kind == "Secret" else given.get("data")
        except (WrongInput, AttributeError):
            return None
        return values if isinstance(values, Mapping) else {}

    workload = found(target_type(target)[1], str(target.get("name") or ""))
    containers = _field(workload or {}, "spec", "template", "spec", "containers")
    wanted = target.get("envSourceContainerName")
    for container in containers if isinstance(containers, list) else ():
        if isinstance(container, Mapping) and (not wanted or container.get("name") == wanted):
            return container_variables(container, values_of)
    return ContainerVariables()


def _field(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
