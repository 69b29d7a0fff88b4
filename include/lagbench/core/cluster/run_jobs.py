"""Build the Jobs of a run from the committed ones: each is tried once."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.manifests import (
    Manifest,
    RunTarget,
    group_settings,
    named,
    workload_for_run,
)
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import profile_content
from lagbench.core.scenario.run_names import SWAP_ANNOTATION
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.stream_tail import Tail, resting_lag_records, spikes_of, tail_of


def producer_job_for_run(
    job: Mapping[str, Any],
    target: RunTarget,
    scenario: Scenario,
    *,
    tail: Tail | None,
    starts_at_ns: int | None = None,
    payload_file: str | None = None,
) -> Manifest:
    """Return the producer's Job; with a ``tail`` base load continues until it is deleted."""
    settings: dict[str, Any] = {
        "profile_json": profile_content(scenario.profile),
        "partitions": scenario.partitions,
        "grow_partitions": scenario.partition_plan.growths,
        "seed": scenario.seed,
        "entities": scenario.keys.entities,
        "zipf_s": scenario.keys.zipf_s,
        "starts_at_ns": starts_at_ns or 0,
    }
    if tail is not None:
        settings |= {"tail_rate": tail.rate_per_second, "tail_most_seconds": tail.most_seconds}
    if scenario.abort is not None:
        settings["abort"] = scenario.abort.model_dump(exclude_none=True)
    if scenario.payload is not None and payload_file is not None:
        settings["payload_file"] = payload_file
        settings["payload_format"] = scenario.payload.format
        settings["payload_key_field"] = scenario.payload.key_field
    return _job(job, target, target.names.producer_job, scenario, settings)


def swapped_policy_for_run(
    policy: Mapping[str, Any], target: RunTarget, *, number: int, is_embedded: bool
) -> Manifest:
    """Return the policy that action ``number`` puts in force, with that number on it."""
    manifest = policy_for_run(policy, target, is_embedded=is_embedded)
    manifest["metadata"]["annotations"][SWAP_ANNOTATION] = str(number)
    return manifest


def actions_job_for_run(
    job: Mapping[str, Any],
    target: RunTarget,
    scenario: Scenario,
    limits: PolicyLimits,
    *,
    policies: Mapping[int, Manifest] | None = None,
) -> Manifest:
    """Return the player's Job, under one name for each run: creating it twice is a conflict."""
    started = limits.started_replicas
    load, spikes = offered_load(scenario.profile), spikes_of(scenario, started_replicas=started)
    tail = tail_of(scenario, started_replicas=started)
    drained = resting_lag_records(tail, lag_threshold=limits.lag_threshold_records or 0)
    settings = {
        "actions": [one.model_dump(mode="json", exclude_none=True) for one in scenario.actions],
        "policies": dict(policies or {}),
        "namespace": target.cluster.namespace,
        "workload": target.workload,
        "seed": scenario.seed,
        "drained_records": drained,
        "drained_after_seconds": spikes[-1].end_seconds if spikes else load.duration_seconds,
    }
    return _job(job, target, target.names.actions_job, scenario, settings)


def _job(
    job: Mapping[str, Any],
    target: RunTarget,
    name: str,
    scenario: Scenario,
    settings: Mapping[str, Any],
) -> Manifest:
    """Return a Job of the run that is tried once: a second try would do its work twice."""
    settings = {**group_settings(target), **settings}
    if scenario.second_group is not None:
        settings["second_telemetry_topic"] = target.names.second.telemetry_topic
    servers = {"KAFKA_BOOTSTRAP_SERVERS": target.bootstrap_servers}
    manifest = workload_for_run(job, target, name=name, settings=settings, environment=servers)
    manifest["spec"]["backoffLimit"] = 0
    manifest["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return manifest


def broker_proxy_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, listen_port: int, upstream_port: int
) -> Manifest:
    """Return the proxy's Deployment between the two ports of the broker's second listener."""
    ports = {"listen_port": listen_port, "upstream_port": upstream_port}
    return workload_for_run(deployment, target, settings=ports)


_FOLDER, _KEY = "/etc/lagbench/samples", "samples"
SAMPLES_FILE = f"{_FOLDER}/{_KEY}"
"""The path of the samples in the producer's pod."""


def samples_for_run(content: bytes, target: RunTarget) -> Manifest:
    """Return the ConfigMap with the bytes of a file of samples, under the producer's name."""
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "binaryData": {_KEY: base64.b64encode(content).decode()},
    }
    named(manifest, target.names.producer_job, target)
    return manifest


def with_samples_mounted(job: Mapping[str, object], target: RunTarget) -> Manifest:
    """Return a copy of the producer's Job whose containers have the samples as a file."""
    manifest: Manifest = copy.deepcopy(dict(job))
    pod = manifest["spec"]["template"]["spec"]
    volume = {"name": _KEY, "configMap": {"name": target.names.producer_job}}
    pod["volumes"] = [*(pod.get("volumes") or []), volume]
    for container in pod["containers"]:
        mount = {"name": _KEY, "mountPath": _FOLDER, "readOnly": True}
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    return manifest
