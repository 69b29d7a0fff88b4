"""Bring a user's samples into the producer's pod on a cluster: a ConfigMap of the run, mounted."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping

from lagbench.core.cluster.manifests import Manifest, RunTarget, named

MOST_CLUSTER_BYTES = 1_000_000
"""Kubernetes takes 1,048,576 bytes in a ConfigMap."""
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
