"""A user's samples on a cluster: a ConfigMap of the run, and its place in the producer's pod."""

from __future__ import annotations

import base64

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.run_samples import SAMPLES_FILE, samples_for_run, with_samples_mounted
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames

TARGET = RunTarget(RunNames("spike-1"), "kafka:9092", ClusterSettings(namespace="spikes"))


def test_the_producer_finds_them_as_a_file() -> None:
    """The volume is the run's ConfigMap, and its key at the mounted path is the file."""
    job = base_manifest("producer", "Job")
    samples = samples_for_run(b"\xff\n", TARGET)

    pod = with_samples_mounted(job, TARGET)["spec"]["template"]["spec"]

    (volume,) = pod["volumes"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    ((key, text),) = samples["binaryData"].items()
    assert base64.b64decode(text) == b"\xff\n"
    assert samples["metadata"]["labels"] == {RUN_ID_LABEL: "spike-1"}
    assert volume == {"name": mount["name"], "configMap": {"name": samples["metadata"]["name"]}}
    assert f"{mount['mountPath']}/{key}" == SAMPLES_FILE
    assert "volumes" not in job["spec"]["template"]["spec"]
