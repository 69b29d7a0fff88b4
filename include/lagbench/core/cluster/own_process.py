"""Adapt a user's Deployment to the embedded bench, where a pod is a process.

Fields without a meaning there are left out with a note. A field that the consumer would miss is
rejected by its place in the file, with the reason, before anything starts.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.manifests import Manifest, RunTarget, named
from lagbench.core.cluster.own_deployment import (
    OWN_KAFKA_SECRET,
    POD_SPEC,
    ContainerValues,
    KafkaSettings,
    OwnDeployment,
    as_workload,
    write_texts,
)
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.core.workload_state import PROBE_KINDS

ENVIRONMENT_SECRET = "consumer-environment"  # noqa: S105 - the name of an object
_KEPT = ("name", "image", "command", "args", "env", "envFrom", "ports", "resources", "volumeMounts")
_CONTAINER_FIELDS = {*_KEPT, *PROBE_KINDS, "lifecycle", "workingDir", "imagePullPolicy"}
_POD_FIELDS = {
    *("containers", "initContainers", "volumes", "terminationGracePeriodSeconds"),
    *("automountServiceAccountToken", "restartPolicy", "imagePullSecrets"),
}
"""Honoured, noted one by one, or without a meaning where no image runs."""
_FIELDS = (
    *("metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels["),
    *("metadata.annotations[", "spec.nodeName", "spec.serviceAccountName"),
    *("status.podIP", "status.hostIP"),
)
_IN_FILE = "its variables in consumer.env_file (--env-file FILE), or the object in the same file"
_SHARE = re.compile(r"\d+%")


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
    """Return the workload of the embedded bench."""
    kafka.require(settings)
    work = _Adaptation(own, settings, environment, list(own.notes))
    workload = as_workload(own, target, replicas=replicas)
    found = {name: one for name, one in own.container.items() if name in _KEPT}
    container = copy.deepcopy({name: one for name, one in found.items() if name != "image" or one})
    container["workingDir"] = folder
    container["command"] = container.get("command") or list(settings.command)
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
    spec = workload["spec"]
    pod = {
        "containers": [container],
        "volumes": volumes,
        "terminationGracePeriodSeconds": own.grace_seconds,
        "automountServiceAccountToken": False,
        "restartPolicy": "Always",
    }
    workload["spec"] = {
        "replicas": replicas,
        "selector": spec["selector"],
        **_rollout(own),
        "template": {"metadata": spec["template"]["metadata"], "spec": pod},
    }
    _note_the_rest(work, folder)
    beside = []
    for name, one in [*own.config_maps.items(), *own.secrets.items()]:
        manifest = copy.deepcopy(dict(one))
        named(manifest, name, target)
        beside.append(manifest)
    login = kafka.secret_values(settings)
    for name, texts in ((ENVIRONMENT_SECRET, environment), (OWN_KAFKA_SECRET, login)):
        if texts:
            secret = {"apiVersion": "v1", "kind": "Secret", "stringData": dict(texts)}
            named(secret, name, target)
            beside.append(secret)
    return OwnProcess(workload, tuple(beside), tuple(dict.fromkeys(work.notes)))


def _variable(kind: str, name: str) -> str:
    """Return the variable of localkube with a port of the pod, or with the folder of a volume."""
    return f"$({kind}_{name.upper().replace('-', '_')})"


def _variables(work: _Adaptation, container: dict[str, Any]) -> None:
    """Take what Secrets have from the file of variables; reject what is nowhere."""
    own, sources = work.own, list[Any]()
    for number, source in enumerate(container.get("envFrom") or []):
        kind = "secretRef" if "secretRef" in source else "configMapRef"
        reference = source.get(kind) or {}
        name = str(reference.get("name"))
        if name in (own.secrets if kind == "secretRef" else own.config_maps):
            sources.append(source)
        elif work.environment:
            sources.append({"secretRef": {"name": ENVIRONMENT_SECRET}})
        elif reference.get("optional"):
            work.note(f"the optional {kind} {name}, which is not in the file")
        else:
            raise own.refuse(f"{own.place}.envFrom[{number}].{kind}", name, _IN_FILE)
    container["envFrom"] = [one for n, one in enumerate(sources) if one not in sources[:n]]
    numbered = enumerate(container.get("env") or [])
    found = [_source(work, one, f"{own.place}.env[{number}].valueFrom") for number, one in numbered]
    container["env"] = [one for one in found if one is not None]


def _source(work: _Adaptation, variable: dict[str, Any], place: str) -> dict[str, Any] | None:
    """Return the variable as localkube can honour it; None: it is optional and nowhere."""
    name, source = variable.get("name"), variable.get("valueFrom")
    if name in work.settings.env:
        return {"name": name, "value": ""}  # the place of the scenario's value
    if not source:
        return variable
    if "fieldRef" in source:
        path = str(source["fieldRef"].get("fieldPath"))
        if path.startswith(_FIELDS):
            return variable
        raise work.own.refuse(f"{place}.fieldRef", path, "a field that one machine has")
    kind = next((one for one in ("secretKeyRef", "configMapKeyRef") if one in source), None)
    if kind is None:
        kinds = ", ".join(source)
        allowed = f"a value of {name} in consumer.env: one machine has no {kinds}"
        raise work.own.refuse(place, kinds, allowed)
    if name in work.environment:
        of_file = {"name": ENVIRONMENT_SECRET, "key": name}
        return {"name": name, "valueFrom": {"secretKeyRef": of_file}}
    reference = source[kind]
    known = work.own.secrets if kind == "secretKeyRef" else work.own.config_maps
    found = known.get(str(reference.get("name"))) or {}
    if reference.get("key") in {**(found.get("data") or {}), **(found.get("stringData") or {})}:
        return variable
    if not reference.get("optional"):
        asked = f"{reference.get('name')}/{reference.get('key')}"
        raise work.own.refuse(f"{place}.{kind}", asked, f"{name} in: {_IN_FILE}")
    work.note(f"the variable {name}: its optional {kind} is not in the file")
    return None


def _volumes(work: _Adaptation, container: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the folders that the container mounts, and replace their paths in its texts."""
    mounts = container.get("volumeMounts") or []
    mounted = {str(mount.get("name")): mount for mount in mounts}
    found, paths = [], {}
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
        path = str(mounted[name].get("mountPath", "")).rstrip("/")
        variable = _variable("VOLUME", name)
        paths[path] = variable
        work.notes.append(
            f"on one machine the folder {path} is {variable}: variables and arguments that begin "
            "with it are changed"
        )
    for key in ("command", "args"):
        container[key] = [_moved(text, paths) for text in container.get(key) or []]
    for variable in container["env"]:
        if "value" in variable:
            variable["value"] = _moved(variable["value"], paths)
    container["volumeMounts"] = mounts
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
        str(port[alias]): _variable("PORT", str(port.get("name") or port["containerPort"]))
        for port in ports
        for alias in ("name", "containerPort")
        if alias in port
    }


def _probes(work: _Adaptation) -> dict[str, Any]:
    """Return the probes that reach the process: on a port that it gets from the scenario."""
    container, kept = work.own.container, dict[str, Any]()
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        how = (probe or {}).get("httpGet") or (probe or {}).get("tcpSocket")
        if probe and how is None:
            work.note(f"{kind}, which is neither httpGet nor tcpSocket")
        elif probe and how:
            names = set(_names_of_port(how.get("port"), container.get("ports") or []))
            if names & work.settings.ports_told:
                kept[kind] = copy.deepcopy(probe)
                continue
            work.note(
                f"{kind}: the processes share this machine's ports, so name the variable that "
                f"takes the port: consumer.env: {{NAME: '{{port.{min(names)}}}'}}"
            )
    return kept


def _names_of_port(port: object, ports: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield all names of a probe's port: its own, and its number."""
    yield str(port)
    for one in ports:
        aliases = [one[name] for name in ("name", "containerPort") if name in one]
        if port in aliases:
            yield from map(str, aliases)


def _rollout(own: OwnDeployment) -> dict[str, Any]:
    """Return how the pods are replaced, checked as a cluster would; types were checked before."""
    spec = own.deployment["spec"]
    found = {name: spec[name] for name in ("strategy", "minReadySeconds") if spec.get(name)}
    strategy = found.get("strategy", {})
    kind, rolling = strategy.get("type", "RollingUpdate"), strategy.get("rollingUpdate") or {}
    if kind not in ("RollingUpdate", "Recreate"):
        raise own.refuse("spec.strategy.type", kind, "RollingUpdate or Recreate")
    place, limits = "spec.strategy.rollingUpdate", ("maxSurge", "maxUnavailable")
    if rolling and kind == "Recreate":
        raise own.refuse(place, rolling, "maxSurge and maxUnavailable, with type RollingUpdate")
    for name in limits:
        limit = rolling.get(name, 0)
        if not (_SHARE.fullmatch(limit) if isinstance(limit, str) else limit >= 0):
            raise own.refuse(f"{place}.{name}", limit, "whole pods from 0 on, or a share like 25%")
    if all(rolling.get(name, "25%") in (0, "0%") for name in limits):
        most = rolling["maxUnavailable"]
        raise own.refuse(f"{place}.maxUnavailable", most, "not 0 as maxSurge is")
    return found


def _note_the_rest(work: _Adaptation, folder: str) -> None:
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
        work.note(f"workingDir {container['workingDir']}: the command runs in {folder}")
