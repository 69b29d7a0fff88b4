"""Build a run's manifests from the committed manifests and the run's settings.

Each patcher returns a new object and leaves its input unchanged. A patcher owns every name it sets:
an argument or variable of that name in the committed file is replaced, everything else stays as
written.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lagbench.core.cluster.group_manifests import Manifest, flags_of_group, for_group
from lagbench.core.cluster.settings import (
    KAFKA_SETTINGS_FOLDER,
    KAFKA_SETTINGS_KEY,
    NO_STORAGE,
    ClusterSettings,
)
from lagbench.core.lag_scaler import allowed_servers_of
from lagbench.core.scenario import (
    POD_ORDINAL_ANNOTATION,
    RUN_ID_LABEL,
    ConsumerFlags,
    ConsumerSettings,
    DownstreamPace,
    PoisonedKey,
    RunNames,
    StartDelay,
    Workload,
    flag_text,
    flag_values,
)
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

GRACE_MARGIN_SECONDS = 10
"""Added to the shutdown timeout: flush, commit and leave took below 2 s here; 10 s is ample."""

_AS_COMMITTED = ClusterSettings()
_KAFKA_VOLUME = "kafka-settings"


@dataclass(frozen=True, slots=True)
class RunTarget:
    """The run of a manifest, the Kafka that its pods use, their cluster, the consumers' kind."""

    names: RunNames
    bootstrap_servers: str
    cluster: ClusterSettings = _AS_COMMITTED
    workload: Workload = "Deployment"
    """The kind of the consumers' workload, which the policy scales and the recorder observes."""


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
    """Return the consumers' workload: settings as arguments, ``replicas`` as the start.

    The committed Deployment becomes a StatefulSet if the settings say so, with the fields of
    k8s/components/statefulset: no pod waits for another one, because the policy under test decides
    how many start at once.

    With a payload the messages have their identity in headers.
    With a ``way`` the pods reach Kafka through the broker proxy. ``seed`` draws the costs of
    messages. With ``start`` each pod waits before it joins; localkube
    notes the pod's number in the run.
    The grace period exceeds the shutdown timeout, else the kubelet would kill a pod that finishes
    its work.
    """
    manifest = for_group(deployment, target.names)
    named(manifest, manifest["metadata"]["name"], target)
    if settings.workload == "StatefulSet":
        manifest["kind"] = settings.workload
        manifest["spec"]["podManagementPolicy"] = "Parallel"
    manifest["spec"]["replicas"] = replicas
    pod = pod_template(manifest, target)
    pod["terminationGracePeriodSeconds"] = grace_seconds(settings)
    container = first_container(pod)
    resources = container.setdefault("resources", {})
    resources["requests"] = {
        **(resources.get("requests") or {}),
        "cpu": f"{settings.cpu_request_millicores}m",
        "memory": f"{settings.memory_request_mebibytes}Mi",
    }
    servers = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    if way is not None:
        servers["KAFKA_BOOTSTRAP_SERVERS"] = way.proxied_servers
        servers["TELEMETRY_BOOTSTRAP_SERVERS"] = way.telemetry_servers
    set_environment(container, servers)
    set_arguments(
        container,
        {
            "run-id": target.names.run_id,
            **flags_of_group(target.names, "group", "processed-topic", "telemetry-topic"),
            **flag_values(settings, ConsumerFlags),
            "work-seed": str(seed),
        },
    )
    if has_payload:
        set_arguments(container, {"identity": "headers"})
    if poison is not None:
        set_arguments(container, {"poison": flag_text(poison)})
    if pace is not None and not pace.is_even:
        set_arguments(container, {"slow-downstream": pace.text})
    if start is not None:
        waits = {"start-seconds": flag_text(start.mean_seconds), "start-seed": str(start.seed)}
        set_arguments(container, waits)
        number = {"fieldRef": {"fieldPath": f"metadata.annotations['{POD_ORDINAL_ANNOTATION}']"}}
        set_variable(container, {"name": "POD_ORDINAL", "valueFrom": number})
    return manifest


def deployment_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, arguments: Mapping[str, str]
) -> Manifest:
    """Return a Deployment of the run with its arguments."""
    manifest = copy.deepcopy(dict(deployment))
    named(manifest, manifest["metadata"]["name"], target)
    set_arguments(first_container(pod_template(manifest, target)), arguments)
    return manifest


def recorder_for_run(
    deployment: Mapping[str, Any],
    target: RunTarget,
    *,
    kubeconfig: str | None = None,
    observed_pids: Mapping[str, int] | None = None,
    is_embedded: bool = False,
) -> Manifest:
    """Return the recorder's Deployment; without a kubeconfig it uses its service account.

    ``observed_pids`` names processes of the embedded bench whose cost it samples. There the metrics
    also have the names of other exporters; on a cluster only if its settings request them.
    """
    manifest = for_group(deployment, target.names)
    named(manifest, manifest["metadata"]["name"], target)
    container = first_container(pod_template(manifest, target))
    environment = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = kubeconfig
    if observed_pids:
        environment["LAGBENCH_OBSERVED_PIDS"] = json.dumps(dict(observed_pids))
    set_environment(container, environment)
    asked = target.cluster.metric_aliases
    has_aliases = is_embedded if asked is None else asked
    arguments = {
        "run-id": target.names.run_id,
        "namespace": target.cluster.namespace,
        "metric-aliases": "on" if has_aliases else "off",
        **flags_of_group(target.names, "group", "telemetry-topic", "deployment"),
    }
    if target.workload != "Deployment":
        arguments["workload"] = target.workload
    set_arguments(container, arguments)
    return manifest


def prometheus_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, scraped_address: str
) -> Manifest:
    """Return the embedded bench's Prometheus, which scrapes ``scraped_address`` (host:port)."""
    manifest = for_group(deployment, target.names)
    named(manifest, manifest["metadata"]["name"], target)
    container = first_container(pod_template(manifest, target))
    set_environment(container, {"SCRAPED_ADDRESS": scraped_address})
    return manifest


def lag_scaler_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, iggy_addresses: Iterable[str] = ()
) -> Manifest:
    """Return the lag scaler's Deployment; each ScaledObject configures its sampling.

    It knows the run's Kafka as its own, the only one to which it sends the pods' login. Objects may
    name it and the Iggy servers of the run's policies, and no others.
    """
    manifest = for_group(deployment, target.names)
    named(manifest, manifest["metadata"]["name"], target)
    container = first_container(pod_template(manifest, target))
    own = {"KAFKA_BROKERS": target.bootstrap_servers}
    allowed = {
        server
        for address in ("", *iggy_addresses)
        for server in allowed_servers_of("", {**own, "IGGY_ADDRESS": address})
    }
    set_environment(container, {**own, "ALLOWED_BROKERS": ",".join(sorted(allowed))})
    return manifest


def companion_for_run(companion: Mapping[str, Any], target: RunTarget) -> Manifest:
    """Return a workload's companion object with the run's label, so that it ends with the run.

    A disruption budget covers only the run's pods, because others may have the same ``app``.
    """
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
    """Label the template (not the selector, which cannot change) and return its pod spec.

    The cluster's image of the programs, or that of Spark, replaces the committed one, and the
    kubelet pulls it with the cluster's Secret. If nothing is to be stored, claims become empty
    folders, which are deleted with the pod.
    """
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


def set_arguments(container: dict[str, Any], values: Mapping[str, str]) -> None:
    """Write arguments as ``--name=value`` and drop existing ones of the same name."""
    dropped = {f"--{name}" for name in values}
    kept = [a for a in container.get("args") or [] if a.split("=", 1)[0] not in dropped]
    container["args"] = kept + [f"--{name}={value}" for name, value in values.items()]
