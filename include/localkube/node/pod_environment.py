"""Compute the command line and the environment of a container."""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from localkube.kinds import CONFIG_MAP, SECRET, SERVICE, Resource
from localkube.kube_objects import COMES_FIRST, JsonObject, KubeObject, port_annotation
from localkube.processes import COMES_FIRST as FIRST
from localkube.processes import ORDINARY
from localkube.storage.object_store import Store

POD_ADDRESS = "127.0.0.1"
_REFERENCE = re.compile(r"\$(\$|\(([A-Za-z_.-][\w.-]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")
# Inherited by default: an environment that was not chosen for pods may hold secrets.
_HARMLESS = re.compile(
    r"PATH|HOME|USER|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TERM|VIRTUAL_ENV|PYTHON\w*|LD_LIBRARY_PATH"
)


class ContainerConfigFault(Exception):
    """A container cannot be started as its spec says; kubelet's CreateContainerConfigError."""


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The command of a container, its environment and its working folder."""

    command: list[str]
    environment: dict[str, str]
    folder: Path
    has_own_folder: bool = True
    """True: ``folder`` is the pod's own, not one that the container names as workingDir."""
    niceness: int = ORDINARY


@dataclass(frozen=True, slots=True)
class NodeEnvironment:
    """The node's part of every pod's environment."""

    inherited: Mapping[str, str]
    kubeconfig: Path
    store: Store = field(compare=False)


def inheritable(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of localkube's own environment that pods inherit by default."""
    return {name: value for name, value in environment.items() if _HARMLESS.fullmatch(name)}


def with_own_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose ``python`` runs localkube: pods see the same packages."""
    own_folder = str(Path(sys.executable).parent)
    path = os.pathsep.join([own_folder, environment.get("PATH", os.defpath)])
    # Unbuffered, as in images, so that a followed log is live.
    return {"PYTHONUNBUFFERED": "1", **environment, "PATH": path}


def variable_of(kind: str, name: str) -> str:
    """Return the variable of a port or volume: ``PORT``, ``metrics-http`` -> PORT_METRICS_HTTP."""
    return f"{kind}_{name}".upper().replace("-", "_")


def plan_launch(
    pod: KubeObject,
    container: JsonObject,
    ports: Mapping[str, int],
    node: NodeEnvironment,
    folder: Path,
) -> LaunchPlan:
    """Return how to start ``container``; ``ports`` are the pod's ports by name.

    :raises ContainerConfigFault: the spec refers to something that does not exist.
    """
    own = {variable_of("PORT", name): str(port) for name, port in ports.items()}
    own |= _volume_folders(pod, container, node.store, folder)
    declared: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        resource = SECRET if "secretRef" in source else CONFIG_MAP
        reference = source.get("secretRef") or source.get("configMapRef") or {}
        data = _data_of(resource, reference, pod, node.store)
        declared |= {source.get("prefix", "") + key: value for key, value in data.items()}
    for variable in container.get("env") or ():
        value: str | None = _expand(str(variable.get("value", "")), {**own, **declared})
        if "valueFrom" in variable:
            value = _value_from(variable["valueFrom"], pod, node.store)
        if value is not None:
            declared[variable["name"]] = value
    declared.update(own)
    environment = {**node.inherited, **_service_variables(pod, node.store), **declared}
    if pod.spec.get("automountServiceAccountToken") is not False and "KUBECONFIG" not in declared:
        environment["KUBECONFIG"] = str(node.kubeconfig)
    if "HOSTNAME" not in declared:
        environment["HOSTNAME"] = str(pod.spec.get("hostname") or pod.name)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise ContainerConfigFault(
            f"container {container['name']!r} has no command: localkube runs no images, so it "
            "does not know the entry point of one"
        )
    working_dir = container.get("workingDir")
    if working_dir and not Path(working_dir).is_dir():
        raise ContainerConfigFault(f"workingDir {working_dir!r} is not a folder on this machine")
    return LaunchPlan(
        [_expand(word, environment) for word in words],
        environment,
        Path(working_dir) if working_dir else folder,
        has_own_folder=not working_dir,
        niceness=FIRST if pod.annotations.get(COMES_FIRST) == "true" else ORDINARY,
    )


def _volume_folders(
    pod: KubeObject, container: JsonObject, store: Store, folder: Path
) -> dict[str, str]:
    """Make a folder of the pod for each emptyDir and ConfigMap that the container mounts.

    Return the folders by variable; volumes of other kinds have none.
    """
    mounted = {mount.get("name") for mount in container.get("volumeMounts") or ()}
    folders = {}
    for volume in pod.spec.get("volumes") or ():
        if volume.get("name") not in mounted or not {"emptyDir", "configMap"} & set(volume):
            continue
        place = folder / "volumes" / str(volume["name"])
        place.mkdir(parents=True, exist_ok=True)
        if reference := volume.get("configMap"):
            for name, text in _data_of(CONFIG_MAP, reference, pod, store).items():
                (place / name).write_text(text, encoding="utf-8")
        folders[variable_of("VOLUME", str(volume["name"]))] = str(place)
    return folders


def _expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace ``$(NAME)`` where NAME is known; ``$$`` stands for one dollar sign."""

    def value(found: re.Match[str]) -> str:
        return "$" if found[1] == "$" else variables.get(found[2], found[0])

    return _REFERENCE.sub(value, text)


def _value_from(source: JsonObject, pod: KubeObject, store: Store) -> str | None:
    if "fieldRef" in source:
        return _pod_field(pod, str(source["fieldRef"].get("fieldPath", "")))
    kind = "secretKeyRef" if "secretKeyRef" in source else "configMapKeyRef"
    reference, resource = source[kind], SECRET if kind == "secretKeyRef" else CONFIG_MAP
    value = _data_of(resource, reference, pod, store).get(reference.get("key", ""))
    if value is None and not reference.get("optional"):
        raise ContainerConfigFault(
            f"couldn't find key {reference.get('key')!r} of {kind} {reference.get('name')!r} "
            f"in namespace {pod.namespace}"
        )
    return value


def _data_of(
    resource: Resource, reference: JsonObject, pod: KubeObject, store: Store
) -> dict[str, str]:
    """Return the data of a ConfigMap or Secret, which must exist unless it is optional."""
    found = store.find(resource, pod.namespace, str(reference.get("name")))
    if found is None and not reference.get("optional"):
        raise ContainerConfigFault(f'{resource.kind.lower()} "{reference.get("name")}" not found')
    if found is None:
        return {}
    data = dict(found.get("data") or {})
    if resource == SECRET:
        data = {key: base64.b64decode(value).decode() for key, value in data.items()}
        data.update(found.get("stringData") or {})
    return data


def _pod_field(pod: KubeObject, path: str) -> str:
    simple = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": "localkube",
        "spec.serviceAccountName": pod.spec.get("serviceAccountName", "default"),
        "status.podIP": POD_ADDRESS,
        "status.hostIP": POD_ADDRESS,
    }
    if path in simple:
        return str(simple[path])
    if found := _SUBSCRIPT.match(path):
        entries = pod.labels if found[1] == "labels" else pod.annotations
        return entries.get(found[2], "")
    raise ContainerConfigFault(f"fieldRef {path!r} is not supported by localkube")


def _service_variables(pod: KubeObject, store: Store) -> dict[str, str]:
    """Return the variables with the addresses of the services in the pod's namespace."""
    variables: dict[str, str] = {}
    for service in store.select(SERVICE, pod.namespace):
        prefix = f"{service.name}_SERVICE"
        for index, port in enumerate(service.spec.get("ports") or ()):
            number = service.annotations.get(port_annotation(port, "port"))
            if number is None:
                continue
            variables[variable_of(prefix, "HOST")] = POD_ADDRESS
            if index == 0:
                variables[variable_of(prefix, "PORT")] = number
            if port.get("name"):
                variables[variable_of(prefix, f"PORT_{port['name']}")] = number
    return variables
