"""Read the Deployment that a user brings, and make it one of a run on a cluster.

The run sets name, labels, selector and replicas. The consumer gets its Kafka, topic and group by
the variables and arguments that the scenario names. Everything else stays as the user wrote it.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lagbench.core.cluster.cluster_settings import KAFKA_SETTINGS_FOLDER, KAFKA_SETTINGS_KEY
from lagbench.core.cluster.manifests import Manifest, RunTarget, named, set_environment
from lagbench.core.object_meta import without_export
from lagbench.core.scenario.own_consumer import KAFKA_CONFIG, KAFKA_PREFIX, filled_in
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.errors import WrongInput

POD_SPEC = "spec.template.spec"
POD_VARIABLE = "LAGBENCH_POD"
LEDGER_VARIABLE = "LAGBENCH_LEDGER_TOPIC"


@dataclass(frozen=True, slots=True)
class OwnDeployment:
    """The user's Deployment, with the ConfigMaps and Secrets of the same file by name."""

    where: str
    deployment: Mapping[str, Any]
    container: Mapping[str, Any]
    place: str
    """Of the container in the Deployment, e.g. ``spec.template.spec.containers[0]``."""
    config_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def pod(self) -> Mapping[str, Any]:
        """The spec of its pods."""
        spec: Mapping[str, Any] = self.deployment["spec"]["template"]["spec"]
        return spec

    @property
    def grace_seconds(self) -> int:
        """The time that a pod has after SIGTERM."""
        return int(self.pod.get("terminationGracePeriodSeconds", 30))

    def refuse(self, place: str, value: object, allowed: str) -> WrongInput:
        """Return the error for what is at ``place``."""
        shown = _outline(value) if isinstance(value, Mapping | list) else value
        return WrongInput(where=self.where, field=place, value=shown, allowed=allowed)


def own_deployment(
    documents: Sequence[Any], *, where: str, container: str | None = None
) -> OwnDeployment:
    """Return the one Deployment in a file's documents."""

    def refuse(place: str, value: object, allowed: str) -> WrongInput:
        return WrongInput(where=where, field=place, value=value, allowed=allowed)

    found = [one for one in documents if isinstance(one, Mapping)]
    deployments = [one for one in found if one.get("kind") == "Deployment"]
    if len(deployments) != 1 or len(found) != len(documents):
        names = [
            f"{one.get('kind')} {(one.get('metadata') or {}).get('name') or ''}".strip()
            if isinstance(one, Mapping)
            else type(one).__name__
            for one in documents
        ]
        named = ", ".join(names) or "nothing"
        raise refuse("kind", named, "one Deployment; ConfigMaps and Secrets may be beside it")
    deployment = deployments[0]
    spec: Any = deployment
    for part in POD_SPEC.split("."):
        spec = spec.get(part) if isinstance(spec, Mapping) else None
    containers = spec.get("containers") if isinstance(spec, Mapping) else None
    if not isinstance(containers, list) or not all(
        isinstance(one, Mapping) and one.get("name") for one in containers or [None]
    ):
        allowed = "a list of containers, each with a name"
        raise refuse(f"{POD_SPEC}.containers", _outline(containers), allowed)
    if deployment["spec"].get("paused"):
        raise refuse("spec.paused", True, "false: a paused Deployment replaces no pod")
    names = [one["name"] for one in containers]
    if container is not None and container not in names:
        allowed = f"a container of the manifest: {', '.join(names)}"
        raise refuse("consumer.container", container, allowed)
    index = 0 if container is None else names.index(container)
    beside: dict[str, dict[str, Mapping[str, Any]]] = {
        kind: {
            str((one.get("metadata") or {}).get("name")): one
            for one in found
            if one.get("kind") == kind
        }
        for kind in ("ConfigMap", "Secret")
    }
    others = sorted({str(one.get("kind")) for one in found} - {"Deployment", *beside})
    return OwnDeployment(
        where=where,
        deployment=deployment,
        container=containers[index],
        place=f"{POD_SPEC}.containers[{index}]",
        config_maps=beside["ConfigMap"],
        secrets=beside["Secret"],
        notes=tuple(f"left out: {kind} of {where}" for kind in others),
    )


def own_consumer_for_cluster(
    own: OwnDeployment, target: RunTarget, settings: ConsumerSettings, *, replicas: int
) -> Manifest:
    """Return the user's Deployment as the run's workload on a cluster: all is passed through."""
    manifest = as_workload(own, target, replicas=replicas)
    pod = manifest["spec"]["template"]["spec"]
    container = next(one for one in pod["containers"] if one["name"] == own.container["name"])
    ports = {
        str(port[alias]): str(port["containerPort"])
        for port in own.container.get("ports") or []
        if isinstance(port, Mapping) and isinstance(port.get("containerPort"), int)
        for alias in ("name", "containerPort")
        if alias in port
    }
    secret, file = target.cluster.kafka_secret or OWN_KAFKA_SECRET, None
    if settings.kafka_told:  # the settings of the cluster's Kafka, and the files that they name
        volume = {"name": _VOLUME, "secret": {"secretName": secret, "defaultMode": 0o444}}
        mount = {"name": _VOLUME, "mountPath": KAFKA_SETTINGS_FOLDER, "readOnly": True}
        pod["volumes"] = [*(pod.get("volumes") or []), volume]
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
        file = f"{KAFKA_SETTINGS_FOLDER}/{KAFKA_SETTINGS_KEY}"
    write_texts(own, container, target, settings, ContainerValues(ports, secret, file))
    return manifest


def as_workload(own: OwnDeployment, target: RunTarget, *, replicas: int) -> Manifest:
    """Return a copy with the run's name, labels, selector and replicas."""
    manifest = copy.deepcopy(without_export(own.deployment))
    app = {"app": target.names.consumers, "app.kubernetes.io/name": target.names.consumers}
    manifest["metadata"] = {
        name: value
        for name, value in (manifest.get("metadata") or {}).items()
        if name in ("labels", "annotations")
    }
    metadata = named(manifest, target.names.consumers, target)
    metadata["labels"] |= app
    spec = manifest["spec"]
    spec["replicas"], spec["selector"] = replicas, {"matchLabels": {"app": app["app"]}}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **metadata["labels"]}
    return manifest


@dataclass(frozen=True, slots=True)
class ContainerValues:
    """The values of a container's placeholders for its ports and for Kafka's log-in."""

    ports: Mapping[str, str]
    """By name and by number."""
    kafka_secret: str
    """The Secret whose keys are librdkafka's settings."""
    kafka_config: str | None
    """The path of the file with all settings; None: no placeholder requests it."""


def write_texts(
    own: OwnDeployment,
    container: dict[str, Any],
    target: RunTarget,
    settings: ConsumerSettings,
    values: ContainerValues,
) -> None:
    """Write the scenario's variables and arguments into the container.

    A variable replaces that of the manifest. ``$(LAGBENCH_POD)`` is the pod's name, so it is the
    first variable; those of Kafka's log-in follow.
    """
    names, told = target.names, settings_told(settings)
    known = {
        "bootstrap_servers": target.bootstrap_servers,
        "topic": names.events_topic,
        "group": names.group,
        "output_topic": names.processed_topic,
        "ledger_topic": names.processed_topic,
        "pod": f"$({POD_VARIABLE})",
        **{f"port.{name}": port for name, port in values.ports.items()},
        **{f"{KAFKA_PREFIX}{name}": f"$({_variable(name)})" for name in told},
    }
    if values.kafka_config is not None:
        known[KAFKA_CONFIG] = values.kafka_config
    try:
        variables = {name: filled_in(text, known) for name, text in settings.env.items()}
        arguments = [filled_in(text, known) for text in settings.args]
    except KeyError as missing:
        ports = ", ".join(sorted(name for name in values.ports if name)) or "it has none"
        allowed = f"the port of {{{missing.args[0]}}}: {ports}"
        raise own.refuse(f"{own.place}.ports", None, allowed) from missing
    if settings.accounting == "ledger":
        variables[LEDGER_VARIABLE] = names.processed_topic
    first: list[dict[str, Any]] = [
        {"name": POD_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    ]
    for name in told:
        reference = {"secretKeyRef": {"name": values.kafka_secret, "key": name}}
        first.append({"name": _variable(name), "valueFrom": reference})
    written = {one["name"] for one in first}
    kept = [one for one in container.get("env") or [] if one.get("name") not in written]
    container["env"] = [*first, *kept]
    set_environment(container, variables)
    if arguments:
        container["args"] = [*(container.get("args") or []), *arguments]


def set_own_variables(containers: Sequence[dict[str, Any]], values: Mapping[str, str]) -> None:
    """Write variables into the container of a run's workload that consumes."""
    for container in containers:
        if any(one["name"] == POD_VARIABLE for one in container.get("env") or []):
            set_environment(container, values)


def _outline(value: object) -> object:
    """Return types and names of a part of the manifest, whose other values may be secrets."""
    if isinstance(value, Mapping):
        return {key: one if key == "name" else type(one).__name__ for key, one in value.items()}
    if isinstance(value, list):
        return [_outline(one) if isinstance(one, Mapping) else type(one).__name__ for one in value]
    return type(value).__name__


OWN_KAFKA_SECRET = "consumer-kafka"  # noqa: S105 - the name of an object
_VOLUME = "lagbench-kafka"
_DEFAULTS = {"security.protocol": "plaintext"}
"""Of librdkafka: a Kafka without any setting has it, too."""


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """librdkafka's settings of the run's Kafka, as this machine's processes have them."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)  # may hold a password
    file: str | None = None
    """Of ``name=value`` lines; None: the Kafka has no other settings than its address."""

    def value(self, name: str) -> str | None:
        """Return a setting; None: it is not set."""
        return self.values.get(name, _DEFAULTS.get(name))

    def require(self, consumer: ConsumerSettings) -> None:
        """Reject a placeholder that this Kafka has no value for."""
        for place, name in consumer.kafka_told:
            if name == KAFKA_CONFIG:
                is_known = self.file is not None
            else:
                is_known = self.value(name.removeprefix(KAFKA_PREFIX)) is not None
            if not is_known:
                known = ", ".join(sorted({*self.values, *_DEFAULTS}))
                allowed = f"settings that this Kafka has: {known}; AIRFLOW_CONN_KAFKA_DEFAULT "
                allowed += "has the others, if it needs them"
                where = "scenario"
                raise WrongInput(where=where, field=place, value=f"{{{name}}}", allowed=allowed)

    def secret_values(self, consumer: ConsumerSettings) -> dict[str, str]:
        """Return the settings that the consumer's placeholders name."""
        names = settings_told(consumer)
        return {name: value for name in names if (value := self.value(name)) is not None}


def settings_told(consumer: ConsumerSettings) -> list[str]:
    """Return the names of the settings that the scenario's placeholders name."""
    names = {name for _, name in consumer.kafka_told if name != KAFKA_CONFIG}
    return sorted(name.removeprefix(KAFKA_PREFIX) for name in names)


def require_kafka_secret(consumer: ConsumerSettings, secret: str | None) -> None:
    """Reject placeholders of a log-in on a cluster whose settings name no Secret."""
    for place, name in consumer.kafka_told:
        if secret is None:
            allowed = "with KAFKA_SECRET in the target's settings, which names the Secret"
            raise WrongInput(where="scenario", field=place, value=f"{{{name}}}", allowed=allowed)


def _variable(setting: str) -> str:
    return f"LAGBENCH_KAFKA_{re.sub('[^A-Z0-9]', '_', setting.upper())}"
