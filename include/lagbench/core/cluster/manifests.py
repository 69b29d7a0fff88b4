"""Build a run's manifests from the committed manifests and the run's settings.

Each function returns a new object. It sets the names that it owns; everything else stays as the
committed file has it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lag_scaler.addresses import allowed_servers_of
from lagbench.core.cluster.cluster_settings import (
    KAFKA_SETTINGS_FOLDER,
    KAFKA_SETTINGS_KEY,
    NO_STORAGE,
    ClusterSettings,
)
from lagbench.core.scenario.message_costs import DownstreamPace, PoisonedKey
from lagbench.core.scenario.run_names import POD_ORDINAL_ANNOTATION, RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import ConsumerFlags, ConsumerSettings, Workload
from lagbench.core.scenario.stream_start import StartDelay
from pod_program.flags import SETTINGS_VARIABLE
from pod_program.kafka_config import CONFIG_VARIABLE

Manifest = dict[str, Any]
GRACE_MARGIN_SECONDS = 10
"""Added to the shutdown timeout: flush, commit and leave took below 2 s here; 10 s is ample."""
_AS_COMMITTED = ClusterSettings()
_KAFKA_VOLUME = "kafka-settings"
_OWN_KINDS = {
    *("Deployment", "StatefulSet", "Service", "PodDisruptionBudget", "PersistentVolumeClaim")
}
"""Each group has its own of these; accounts and roles are shared."""


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The run of a manifest, the Kafka that its pods use, their cluster, the consumers' kind."""

    names: RunNames
    bootstrap_servers: str
    cluster: ClusterSettings = _AS_COMMITTED
    workload: Workload = "Deployment"
    """The kind of the consumers' workload, which the policy scales and the recorder observes."""
    topic: str | None = None
    """The consumers read this; None: the run's own."""
    group: str | None = None


@dataclass(frozen=True, slots=True)
class ConsumersWay:
    """How the run's consumers reach Kafka, if not directly; both addresses are host:port."""

    proxied_servers: str
    """For their work: the address that the broker advertises for the proxy."""
    telemetry_servers: str
    """For their reports: Kafka itself."""


def grace_seconds(settings: ConsumerSettings) -> int:
    """Return the seconds that a pod may take after SIGTERM: open work, last flush and leaving."""
    return int(settings.shutdown_timeout_seconds) + GRACE_MARGIN_SECONDS


def for_group(committed: Mapping[str, Any], names: RunNames) -> Manifest:
    """Return a copy of a committed manifest as an object of the group."""
    manifest: Manifest = copy.deepcopy(dict(committed))
    if not names.is_second or manifest.get("kind") not in _OWN_KINDS:
        return manifest
    metadata, spec = manifest["metadata"], manifest.get("spec") or {}
    metadata["name"] = names.own(metadata["name"])
    template, selector = spec.get("template") or {}, spec.get("selector") or {}
    selects = selector if manifest["kind"] == "Service" else selector.get("matchLabels")
    labels = (template.get("metadata") or {}).get("labels")
    for found in filter(None, (metadata.get("labels"), selects, labels)):
        for key in {"app", "app.kubernetes.io/name"} & found.keys():
            found[key] = names.own(found[key])
    for volume in (template.get("spec") or {}).get("volumes") or []:
        if claim := volume.get("persistentVolumeClaim"):
            claim["claimName"] = names.own(claim["claimName"])
    return manifest


def workload_for_run(
    committed: Mapping[str, Any],
    target: RunTarget,
    *,
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    is_spark: bool = False,
) -> Manifest:
    """Return a workload of the run: names, labels, image, and what its program reads."""
    manifest = for_group(committed, target.names)
    named(manifest, name or manifest["metadata"]["name"], target)
    container = first_container(pod_template(manifest, target, is_spark=is_spark))
    set_environment(container, environment or {})
    if settings:
        set_settings(container, settings)
    return manifest


def group_settings(target: RunTarget) -> dict[str, Any]:
    """Return what names topics and group for a program."""
    names = target.names
    second = {"is_second": True} if names.is_second else {}
    topic = {} if target.topic is None else {"topic": target.topic}
    return {"run_id": names.run_id, **second, **topic}


def consumer_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    settings: ConsumerSettings,
    *,
    replicas: int,
    seed: int = 0,
    poison: PoisonedKey | None = None,
    start: StartDelay | None = None,
    pace: DownstreamPace | None = None,
    way: ConsumersWay | None = None,
    has_payload: bool = False,
) -> Manifest:
    """Return the consumers' workload; ``replicas`` is the start.

    As a StatefulSet it has the fields of k8s/components/statefulset: no pod waits for another one,
    because the policy under test decides how many start at once. The grace period exceeds the
    shutdown timeout, else the kubelet would kill a pod that finishes its work.
    """
    servers = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    if way is not None:
        servers["KAFKA_BOOTSTRAP_SERVERS"] = way.proxied_servers
        servers["TELEMETRY_BOOTSTRAP_SERVERS"] = way.telemetry_servers
    of_pod = settings.model_dump(mode="json", include=set(ConsumerFlags.model_fields))
    of_pod |= group_settings(target) | work_settings(seed, poison, pace)
    if has_payload:
        of_pod["identity"] = "headers"
    if start is not None:
        of_pod |= {"start_seconds": start.mean_seconds, "start_seed": start.seed}
    manifest = workload_for_run(deployment, target, settings=of_pod, environment=servers)
    if settings.workload == "StatefulSet":
        manifest["kind"] = settings.workload
        manifest["spec"]["podManagementPolicy"] = "Parallel"
    manifest["spec"]["replicas"] = replicas
    pod = manifest["spec"]["template"]["spec"]
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    container = first_container(pod)
    resources = container.setdefault("resources", {})
    resources["requests"] = {
        **(resources.get("requests") or {}),
        "cpu": f"{settings.cpu_request_millicores}m",
        "memory": f"{settings.memory_request_mebibytes}Mi",
    }
    if start is not None:
        number = {"fieldRef": {"fieldPath": f"metadata.annotations['{POD_ORDINAL_ANNOTATION}']"}}
        set_variable(container, {"name": "POD_ORDINAL", "valueFrom": number})
    return manifest


def work_settings(
    seed: int, poison: PoisonedKey | None, pace: DownstreamPace | None
) -> dict[str, Any]:
    """Return what a pod of any kind of consumer knows of the costs of messages in its run."""
    return {
        "work_seed": seed,
        "poison": None if poison is None else poison.model_dump(mode="json"),
        "slow_downstream": [] if pace is None else pace.rows,
    }


def recorder_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    *,
    kubeconfig: str | None = None,
    observed_pids: Mapping[str, int] | None = None,
    is_embedded: bool = False,
) -> Manifest:
    """Return the recorder's Deployment; without a kubeconfig it uses its service account."""
    asked = target.cluster.metric_aliases
    settings = {
        **group_settings(target),
        "namespace": target.cluster.namespace,
        "deployment": target.names.consumers,
        "workload": target.workload,
        "has_metric_aliases": is_embedded if asked is None else asked,
        "observed_pids": dict(observed_pids or {}),
    }
    environment = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = kubeconfig
    return workload_for_run(deployment, target, settings=settings, environment=environment)


def prometheus_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, scraped_address: str
) -> Manifest:
    """Return the embedded bench's Prometheus, which scrapes ``scraped_address`` (host:port)."""
    return workload_for_run(deployment, target, environment={"SCRAPED_ADDRESS": scraped_address})


def lag_scaler_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, iggy_addresses: Iterable[str] = ()
) -> Manifest:
    """Return the lag scaler's Deployment; each ScaledObject configures its sampling."""
    own = {"KAFKA_BROKERS": target.bootstrap_servers}
    allowed = {
        server
        for address in ("", *iggy_addresses)
        for server in allowed_servers_of("", {**own, "IGGY_ADDRESS": address})
    }
    environment = {**own, "ALLOWED_BROKERS": ",".join(sorted(allowed))}
    return workload_for_run(deployment, target, environment=environment)


def companion_for_run(companion: Mapping[str, Any], target: RunTarget) -> Manifest:
    """Return a workload's companion object with the run's label, so that it ends with the run."""
    manifest = for_group(companion, target.names)
    named(manifest, manifest["metadata"]["name"], target)
    if manifest.get("kind") == "PodDisruptionBudget":
        selector = manifest["spec"].setdefault("selector", {})
        selector.setdefault("matchLabels", {})[RUN_ID_LABEL] = target.names.run_id
    for subject in manifest.get("subjects") or []:
        subject["namespace"] = target.cluster.namespace
    return manifest


def claim_for_cluster(claim: Mapping[str, Any], target: RunTarget) -> Manifest | None:
    """Return a claim for storage, which outlives the run; None if nothing is to be stored."""
    cluster = target.cluster
    if cluster.storage_class == NO_STORAGE:
        return None
    manifest = for_group(claim, target.names)
    manifest["metadata"]["namespace"] = cluster.namespace
    if cluster.storage_class is not None:
        manifest["spec"]["storageClassName"] = cluster.storage_class
    return manifest


def is_foreign(found: Mapping[str, Any]) -> bool:
    """Return whether no run created this object: it has no run's label."""
    return RUN_ID_LABEL not in (found["metadata"].get("labels") or {})


def named(manifest: Manifest, name: str, target: RunTarget) -> dict[str, Any]:
    """Give a manifest its name, the run's namespace and labels; return its metadata."""
    metadata: dict[str, Any] = manifest.setdefault("metadata", {})
    metadata["name"], metadata["namespace"] = name, target.cluster.namespace
    metadata["labels"] = _labels(metadata, target)
    return metadata


def _labels(metadata: Mapping[str, Any], target: RunTarget) -> dict[str, str]:
    return {**(metadata.get("labels") or {}), RUN_ID_LABEL: target.names.run_id}


def pod_template(
    manifest: Manifest, target: RunTarget, *, is_spark: bool = False
) -> dict[str, Any]:
    """Label the template (not the selector, which cannot change) and return its pod spec."""
    template = manifest["spec"]["template"]
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = _labels(metadata, target)
    pod: dict[str, Any] = template["spec"]
    image = target.cluster.spark_image if is_spark else target.cluster.image
    if image is not None:
        for container in pod["containers"]:
            container["image"] = image
    if target.cluster.image_pull_secret is not None:
        pod["imagePullSecrets"] = [{"name": target.cluster.image_pull_secret}]
    if target.cluster.storage_class == NO_STORAGE:
        for volume in pod.get("volumes") or []:
            if volume.pop("persistentVolumeClaim", None) is not None:
                volume["emptyDir"] = {}
    if target.cluster.kafka_secret is not None:
        _mount_kafka_secret(pod, target.cluster.kafka_secret)
    return pod


def _mount_kafka_secret(pod: dict[str, Any], secret: str) -> None:
    """Give every container the settings of its Kafka clients as a file."""
    volume = {"name": _KAFKA_VOLUME, "secret": {"secretName": secret, "defaultMode": 0o440}}
    kept = [item for item in pod.get("volumes") or [] if item["name"] != _KAFKA_VOLUME]
    pod["volumes"] = [*kept, volume]
    mount = {"name": _KAFKA_VOLUME, "mountPath": KAFKA_SETTINGS_FOLDER, "readOnly": True}
    for container in pod["containers"]:
        others = [m for m in container.get("volumeMounts") or [] if m["name"] != _KAFKA_VOLUME]
        container["volumeMounts"] = [*others, mount]
        file = f"{KAFKA_SETTINGS_FOLDER}/{KAFKA_SETTINGS_KEY}"
        set_environment(container, {CONFIG_VARIABLE: file})


def first_container(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod's container of the program."""
    container: dict[str, Any] = pod["containers"][0]
    return container


def set_environment(container: dict[str, Any], values: Mapping[str, str]) -> None:
    """Write variables; one that is there keeps its place, for later ones may refer to it."""
    for name, value in values.items():
        set_variable(container, {"name": name, "value": value})


def set_variable(container: dict[str, Any], variable: dict[str, Any]) -> None:
    """Write a variable as a manifest has it; one that is there keeps its place."""
    entries, name = list(container.get("env") or []), variable["name"]
    names = [entry.get("name") for entry in entries]
    place = names.index(name) if name in names else len(entries)
    after = [entry for entry in entries[place + 1 :] if entry.get("name") != name]
    container["env"] = [*entries[:place], variable, *after]


def set_settings(container: dict[str, Any], values: Mapping[str, Any]) -> None:
    """Write settings into the document of a program; its flags of the same names are dropped."""
    variables = {entry["name"]: entry.get("value") for entry in container.get("env") or []}
    document = json.loads((variables.get(SETTINGS_VARIABLE) or "{}").replace("$$", "$"))
    text = json.dumps({**document, **values}, separators=(",", ":"))
    # Kubernetes would fill in $(NAME).
    set_environment(container, {SETTINGS_VARIABLE: text.replace("$", "$$")})
    arguments = container.get("args") or []
    names = [argument.lstrip("-").partition("=")[0].replace("-", "_") for argument in arguments]
    kept = [one for one, name in zip(arguments, names, strict=True) if name not in values]
    if arguments:
        container["args"] = kept
