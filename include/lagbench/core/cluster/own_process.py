"""Adapt a user's Deployment to the embedded bench, where a pod is a process.

Fields without a meaning there are left out with a note. A field that the consumer would miss is
rejected by its place in the file, with the reason, before anything starts.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.manifests import Manifest, RunTarget, named
from lagbench.core.cluster.own_deployment import (
    POD_SPEC,
    ContainerValues,
    OwnDeployment,
    as_workload,
    write_texts,
)
from lagbench.core.cluster.own_kafka import OWN_KAFKA_SECRET, KafkaSettings
from lagbench.core.cluster.own_rollout import rollout_of
from lagbench.core.kubernetes import PROBE_KINDS
from lagbench.core.scenario import ConsumerSettings

ENVIRONMENT_SECRET = "consumer-environment"  # noqa: S105 - the name of an object
_KEPT = ("name", "image", "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts")
_CONTAINER_FIELDS = {*_KEPT, *PROBE_KINDS, "lifecycle", "workingDir", "imagePullPolicy"}
_POD_FIELDS = {
    "containers",
    "initContainers",
    "volumes",
    "terminationGracePeriodSeconds",
    "automountServiceAccountToken",
    "restartPolicy",
    "imagePullSecrets",
}
"""Honoured, noted one by one, or without a meaning where no image runs."""
_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.labels[",
    "metadata.annotations[",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.podIP",
    "status.hostIP",
)


@dataclass(frozen=True, slots=True)
class OwnProcess:
    """The objects of the embedded bench for a user's consumer, with notes on what is left out."""

    workload: Manifest
    beside: tuple[Manifest, ...]
    """ConfigMaps and Secrets, which must be there before the pods."""
    notes: tuple[str, ...]


@dataclass(slots=True)
class _Adaptation:
    own: OwnDeployment
    settings: ConsumerSettings
    environment: Mapping[str, str]
    """Of the file of variables."""
    folder: str
    notes: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        self.notes.append(f"left out on one machine: {what}")


def own_consumer_as_process(
    own: OwnDeployment,
    target: RunTarget,
    settings: ConsumerSettings,
    *,
    replicas: int,
    environment: Mapping[str, str],
    folder: str,
    kafka: KafkaSettings,
) -> OwnProcess:
    """Return the workload of the embedded bench.

    :param environment: what ``consumer.env_file`` has; it stands for the cluster's Secrets.
    :param folder: in which the command runs: that of the manifest's file.
    :param kafka: the settings of the run's Kafka, for the placeholders of its log-in.
    """
    kafka.require(settings)
    work = _Adaptation(own, settings, environment, folder, list(own.notes))
    workload = as_workload(own, target, replicas=replicas)
    container = {
        name: copy.deepcopy(own.container[name]) for name in _KEPT if name in own.container
    }
    container.pop("image", None) if not container.get("image") else None
    container["workingDir"] = folder
    if not container.get("command"):
        container["command"] = list(settings.command)
    if not container["command"]:
        raise own.refuse(
            f"{own.place}.command",
            None,
            "a command, here or as consumer.command: no image runs on one machine, so its own "
            "command is not known",
        )
    _variables(work, container)
    volumes = _volumes(work, container)
    container["ports"] = [
        {name: port[name] for name in ("name", "containerPort") if name in port}
        for port in container.get("ports") or []
    ]
    container |= _probes(work)
    container["resources"] = {"requests": (container.get("resources") or {}).get("requests") or {}}
    values = ContainerValues(_port_variables(container["ports"]), OWN_KAFKA_SECRET, kafka.file)
    write_texts(own, container, target, settings, values)
    workload["spec"] = {
        "replicas": replicas,
        "selector": workload["spec"]["selector"],
        **rollout_of(own),
        "template": {
            "metadata": workload["spec"]["template"]["metadata"],
            "spec": {
                "containers": [container],
                "volumes": volumes,
                "terminationGracePeriodSeconds": own.grace_seconds,
                "automountServiceAccountToken": False,
                "restartPolicy": "Always",
            },
        },
    }
    _note_the_rest(work)
    beside = [*_beside(work, target), *_login(kafka.secret_values(settings), target)]
    return OwnProcess(workload, tuple(beside), tuple(dict.fromkeys(work.notes)))


def _variable(kind: str, name: str) -> str:
    """Return the variable of localkube with a port of the pod, or with the folder of a volume."""
    return f"{kind}_{name.upper().replace('-', '_')}"


def _variables(work: _Adaptation, container: dict[str, Any]) -> None:
    """Take what Secrets have from the file of variables; reject what is nowhere."""
    sources = []
    for number, source in enumerate(container.get("envFrom") or []):
        place = f"{work.own.place}.envFrom[{number}]"
        kind = "secretRef" if "secretRef" in source else "configMapRef"
        name = str((source.get(kind) or {}).get("name"))
        known = work.own.secrets if kind == "secretRef" else work.own.config_maps
        if name in known:
            sources.append(source)
        elif work.environment:
            sources.append({"secretRef": {"name": ENVIRONMENT_SECRET}})
        elif not (source.get(kind) or {}).get("optional"):
            raise work.own.refuse(f"{place}.{kind}", name, _IN_FILE)
        else:
            work.note(f"the optional {kind} {name}, which is not in the file")
    container["envFrom"] = [one for n, one in enumerate(sources) if one not in sources[:n]]
    container["env"] = [
        variable
        for number, one in enumerate(container.get("env") or [])
        for variable in [_source(work, one, f"{work.own.place}.env[{number}]")]
        if variable is not None
    ]


_IN_FILE = "its variables in consumer.env_file (--env-file FILE), or the object in the same file"


def _source(work: _Adaptation, variable: dict[str, Any], place: str) -> dict[str, Any] | None:
    """Return the variable as localkube can honour it; None: it is optional and nowhere."""
    if variable.get("name") in work.settings.env:
        return {"name": variable["name"], "value": ""}  # the place of the scenario's value
    source = variable.get("valueFrom")
    if not source:
        return variable
    if "fieldRef" in source:
        path = str(source["fieldRef"].get("fieldPath"))
        if path.startswith(_FIELDS):
            return variable
        raise work.own.refuse(f"{place}.valueFrom.fieldRef", path, "a field that one machine has")
    for kind, known in (
        ("secretKeyRef", work.own.secrets),
        ("configMapKeyRef", work.own.config_maps),
    ):
        if kind not in source:
            continue
        reference, name = source[kind], variable["name"]
        if name in work.environment:
            of_file = {"name": ENVIRONMENT_SECRET, "key": name}
            return {"name": name, "valueFrom": {"secretKeyRef": of_file}}
        found = known.get(str(reference.get("name"))) or {}
        keys = {**(found.get("data") or {}), **(found.get("stringData") or {})}
        if reference.get("key") in keys:
            return variable
        if reference.get("optional"):
            work.note(f"the variable {name}: its optional {kind} is not in the file")
            return None
        asked = f"{reference.get('name')}/{reference.get('key')}"
        raise work.own.refuse(f"{place}.valueFrom.{kind}", asked, f"{name} in: {_IN_FILE}")
    kinds = ", ".join(source)
    allowed = f"a value of {variable['name']} in consumer.env: one machine has no {kinds}"
    raise work.own.refuse(f"{place}.valueFrom", kinds, allowed)


def _volumes(work: _Adaptation, container: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the folders that the container mounts, and replace their paths in its texts."""
    mounts = container.get("volumeMounts") or []
    mounted = {str(mount.get("name")): mount for mount in mounts}
    found = []
    for number, volume in enumerate(work.own.pod.get("volumes") or []):
        place, name = f"{POD_SPEC}.volumes[{number}]", str(volume.get("name"))
        if name not in mounted:
            continue
        kind = next((key for key in volume if key != "name"), "nothing")
        if kind == "configMap" and volume[kind].get("name") not in work.own.config_maps:
            asked, allowed = volume[kind].get("name"), "a ConfigMap in the same file"
            raise work.own.refuse(f"{place}.configMap", asked, allowed)
        if kind not in ("emptyDir", "configMap"):
            allowed = "emptyDir or configMap: on one machine these are folders, and no other is"
            raise work.own.refuse(f"{place}.{kind}", volume.get(kind), allowed)
        found.append({"name": name, kind: volume[kind]})
    paths = {
        str(mount.get("mountPath", "")).rstrip("/"): f"$({_variable('VOLUME', name)})"
        for name, mount in mounted.items()
        if any(one["name"] == name for one in found)
    }
    for key in ("command", "args"):
        container[key] = [_moved(text, paths) for text in container.get(key) or []]
    for variable in container["env"]:
        if "value" in variable:
            variable["value"] = _moved(variable["value"], paths)
    work.notes += [
        f"on one machine the folder {path} is {folder}: variables and arguments that begin with "
        "it are changed"
        for path, folder in paths.items()
    ]
    container["volumeMounts"] = [mount for mount in mounts if mount.get("name") in mounted]
    return found


def _moved(text: str, paths: Mapping[str, str]) -> str:
    for path in sorted(paths, key=len, reverse=True):
        before, found, after = text.partition(path)
        is_whole = not after or after.startswith("/")
        if found and is_whole and (not before or before.endswith(("=", ":"))):
            return f"{before}{paths[path]}{after}"
    return text


def _port_variables(ports: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return localkube's variable of each port, of which a process gets one of its own."""
    return {
        str(port[alias]): f"$({_variable('PORT', str(port.get('name') or port['containerPort']))})"
        for port in ports
        for alias in ("name", "containerPort")
        if alias in port
    }


def _probes(work: _Adaptation) -> dict[str, Any]:
    """Return the probes that reach the process: on a port that it gets from the scenario."""
    container, told = work.own.container, set(work.settings.ports_told)
    kept: dict[str, Any] = {}
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        if not probe:
            continue
        how = probe.get("httpGet") or probe.get("tcpSocket")
        if how is None:
            work.note(f"{kind}, which is neither httpGet nor tcpSocket")
            continue
        names = _names_of_port(how.get("port"), container.get("ports") or [])
        if names & told:
            kept[kind] = copy.deepcopy(probe)
        else:
            work.note(
                f"{kind}: the processes share this machine's ports, so name the variable that "
                f"takes the port: consumer.env: {{NAME: '{{port.{min(names)}}}'}}"
            )
    return kept


def _names_of_port(port: object, ports: list[Mapping[str, Any]]) -> set[str]:
    """Return all names of a probe's port: its own, and its number."""
    same = [one for one in ports if port in (one.get("name"), one.get("containerPort"))]
    return {str(port)} | {
        str(one[name]) for one in same for name in ("name", "containerPort") if name in one
    }


def _beside(work: _Adaptation, target: RunTarget) -> Iterator[Manifest]:
    for name, found in [*work.own.config_maps.items(), *work.own.secrets.items()]:
        manifest = copy.deepcopy(dict(found))
        named(manifest, name, target)
        yield manifest
    if work.environment:
        yield _secret(ENVIRONMENT_SECRET, work.environment, target)


def _login(values: Mapping[str, str], target: RunTarget) -> Iterator[Manifest]:
    if values:
        yield _secret(OWN_KAFKA_SECRET, values, target)


def _secret(name: str, values: Mapping[str, str], target: RunTarget) -> Manifest:
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret"}
    named(secret, name, target)
    secret["stringData"] = dict(values)
    return secret


def _note_the_rest(work: _Adaptation) -> None:
    pod, container = work.own.pod, work.own.container
    for one in pod.get("initContainers") or []:
        work.note(f"the init container {one.get('name')}")
    for one in pod.get("containers") or []:
        if one.get("name") != container.get("name"):
            work.note(f"the container {one.get('name')} beside the consumer")
    for hook in container.get("lifecycle") or {}:
        work.note(f"the hook {hook} of the container")
    if (container.get("resources") or {}).get("limits"):
        work.note("limits of resources, which are not enforced")
    for what, found, known in (
        ("the pod", pod, _POD_FIELDS),
        ("the container", container, _CONTAINER_FIELDS),
    ):
        if others := sorted(name for name, value in found.items() if value and name not in known):
            work.note(f"fields of {what}: {', '.join(others)}")
    if container.get("workingDir"):
        work.note(f"workingDir {container['workingDir']}: the command runs in {work.folder}")
