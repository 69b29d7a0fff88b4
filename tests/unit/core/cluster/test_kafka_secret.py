"""Pods of a run against a Kafka with TLS and SASL."""

from __future__ import annotations

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.cluster.manifests import RunTarget, consumer_for_run, recorder_for_run
from lagbench.core.cluster.settings import ClusterSettings
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

SETTINGS_OF_PODS = "kafka-login"
NAMES = RunNames("quick-spike-1")


def test_every_pod_has_the_secret_as_a_folder_and_the_file_by_name() -> None:
    """Consumers and recorder have the volume once, read only, and the variable that names it."""
    target = RunTarget(NAMES, "kafka:9093", ClusterSettings(kafka_secret=SETTINGS_OF_PODS))
    committed = base_manifest("consumer", "Deployment")
    once = consumer_for_run(committed, target, ConsumerSettings(), replicas=1)
    twice = consumer_for_run(once, target, ConsumerSettings(), replicas=1)
    recorder = recorder_for_run(base_manifest("recorder", "Deployment"), target)
    for manifest in (once, twice, recorder):
        pod = manifest["spec"]["template"]["spec"]
        (volume,) = [v for v in pod["volumes"] if "secret" in v]
        assert volume["secret"]["secretName"] == SETTINGS_OF_PODS
        (container,) = pod["containers"]
        (mount,) = [m for m in container["volumeMounts"] if m["name"] == volume["name"]]
        assert (mount["mountPath"], mount["readOnly"]) == ("/etc/lagbench/kafka", True)
        named = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert named[CONFIG_VARIABLE] == "/etc/lagbench/kafka/client.properties"
