"""Manifests of a run with two groups, on Spark, and on a cluster with log-ins."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.core.cluster.consumer_pod import read_by
from tests.unit.k8s.program_imports import base_objects as committed_objects
from tests.unit.k8s.program_imports import pod_spec, workloads

from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.catalog.catalog import checked_cell, load_policy, load_scenario
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import (
    Manifest,
    RunTarget,
    companion_for_run,
    consumer_for_run,
    grace_seconds,
    lag_scaler_for_run,
    prometheus_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.policy_manifest import (
    asks_lag_scaler,
    asks_prometheus,
    policy_for_run,
    refuse_kind_on_cluster,
)
from lagbench.core.cluster.run_jobs import (
    SAMPLES_FILE,
    actions_job_for_run,
    producer_job_for_run,
    samples_for_run,
    with_samples_mounted,
)
from lagbench.core.cluster.spark_pods import (
    CHECKPOINT_MOUNT,
    SparkPlace,
    spark_consumer_for_run,
    spark_driver_for_run,
    spark_master_for_run,
    spark_workers_for_run,
)
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.errors import WrongInput
from lagbench.programs.consumer.consumer_settings import parse_options as parse_consumer
from lagbench.programs.producer.producer_settings import read_settings
from lagbench.programs.recorder.sources import parse_options as parse_recorder
from lagbench.programs.spark_daemon.daemon import parse_settings
from lagbench_enrich.session import parse_options
from pod_program.kafka_config import CONFIG_VARIABLE

FIRST = RunTarget(RunNames("quick-spike-1"), "127.0.0.1:19092")
SECOND = RunTarget(FIRST.names.second, "127.0.0.1:19092")
ACCOUNTS = ("ServiceAccount", "Role", "RoleBinding")


def workloads_of(target: RunTarget) -> list[Manifest]:
    """Return every Deployment that a group has its own of."""
    consumer, recorder, scaler, prometheus = (
        base_manifest(name, "Deployment")
        for name in ("consumer", "recorder", "lag-scaler", "prometheus")
    )
    return [
        consumer_for_run(consumer, target, ConsumerSettings(), replicas=2),
        recorder_for_run(recorder, target),
        lag_scaler_for_run(scaler, target),
        prometheus_for_run(prometheus, target, scraped_address="127.0.0.1:1"),
    ]


def companions(target: RunTarget) -> list[Manifest]:
    """Return the objects beside them."""
    folders = ("consumer", "recorder", "lag-scaler", "prometheus")
    return [companion_for_run(one, target) for name in folders for one in base_objects(name)]


def selectors(manifest: Mapping[str, Any]) -> Iterator[Mapping[str, str]]:
    """Yield the labels by which an object selects pods."""
    selector = (manifest.get("spec") or {}).get("selector")
    if selector is not None:
        yield selector.get("matchLabels", selector)


def test_no_selector_of_one_group_fits_pods_of_the_other() -> None:
    """Each workload, Service and budget selects pods of its own group, and none of the other."""
    pods = {
        target: [one["spec"]["template"]["metadata"]["labels"] for one in workloads_of(target)]
        for target in (FIRST, SECOND)
    }
    for own, other in ((FIRST, SECOND), (SECOND, FIRST)):
        for manifest in (*workloads_of(own), *companions(own)):
            for selector in selectors(manifest):
                fits = selector.items()
                assert any(fits <= labels.items() for labels in pods[own]), manifest["metadata"]
                assert not any(fits <= labels.items() for labels in pods[other]), manifest


def test_no_object_of_one_group_replaces_one_of_the_other() -> None:
    """Kinds and names are apart, except for accounts and roles, which both groups use."""
    first, second = (
        {
            (made["kind"], made["metadata"]["name"])
            for made in (*workloads_of(target), *companions(target))
            if made["kind"] not in ACCOUNTS
        }
        for target in (FIRST, SECOND)
    )
    assert len(first) == len(second)
    assert not first & second


def test_the_lag_scaler_s_windows_are_its_group_s() -> None:
    """The claim that its pod mounts is the one of its own group."""
    scaler = lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), SECOND)
    claim = next(one for one in companions(SECOND) if one["kind"] == "PersistentVolumeClaim")

    (volume,) = scaler["spec"]["template"]["spec"]["volumes"]

    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]


def test_the_programs_of_the_second_group_use_its_names() -> None:
    """Consumer and recorder read group, ledger and telemetry; the events are those of the run."""
    consumer, recorder, *_ = workloads_of(SECOND)
    names = SECOND.names

    worker, observer = read_by(parse_consumer, consumer), read_by(parse_recorder, recorder)

    assert worker.topic == observer.topic == FIRST.names.events_topic
    assert worker.group == observer.group == names.group
    assert worker.processed_topic == names.processed_topic
    assert worker.telemetry_topic == observer.telemetry_topic == names.telemetry_topic
    assert observer.deployment == "second-consumer"
    assert observer.pod_selector == f"app=second-consumer,{RUN_ID_LABEL}=quick-spike-1"


@pytest.mark.parametrize(("second", "topic"), [(None, None), ({}, SECOND.names.telemetry_topic)])
def test_the_producer_reports_to_both_groups(second: object, topic: str | None) -> None:
    """Each group's folder then shows the load; a run with one group has no such flag."""
    data = load_scenario("quick_spike").model_dump(mode="json") | {"second_group": second}
    scenario = type(load_scenario("quick_spike")).model_validate(data)

    made = producer_job_for_run(base_manifest("producer", "Job"), FIRST, scenario, tail=None)

    assert read_by(read_settings, made).flags.second_telemetry_topic == topic


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("lag-quick", None),
        ("persistent-lag", "second-lagbench-lag-scaler.lagbench:6000"),
        ("prometheus-lag", "http://second-lagbench-prometheus.lagbench:9090"),
        ("cpu-only", None),
    ],
)
def test_a_policy_of_the_second_group_scales_and_reads_its_own(
    name: str, address: str | None
) -> None:
    """Target, group and telemetry are its own, and so are the servers that its triggers call."""
    made = policy_for_run(load_policy(name).manifest, SECOND, is_embedded=True)

    assert made["metadata"]["name"] == "second-consumer"
    assert made["spec"]["scaleTargetRef"]["name"] == "second-consumer"
    annotations = made["metadata"]["annotations"]
    assert annotations["lagbench.io/telemetry-topic"] == SECOND.names.telemetry_topic
    metadata = [trigger.get("metadata") or {} for trigger in made["spec"].get("triggers") or []]
    groups = {found["consumerGroup"] for found in metadata if "consumerGroup" in found}
    assert groups <= {SECOND.names.group}
    called = {found.get("scalerAddress") or found.get("serverAddress") for found in metadata}
    assert called - {None} == ({address} if address else set())
    given = load_policy(name).manifest  # what a run starts beside it is decided by either
    assert asks_lag_scaler(made) == asks_lag_scaler(given)
    assert asks_prometheus(made) == asks_prometheus(given)


TARGET = RunTarget(RunNames("one-run"), "kafka:9092")
PLACE = SparkPlace("spark://master:7077", "4.2.0", checkpoint="file:///run/checkpoint", jars="a,b")
BASE = workloads()

SETTINGS = ConsumerSettings.model_validate(
    {
        "kind": "spark",
        "process_ms": {"kind": "lognormal", "mean_ms": 4, "p99_ms": 40},
        "concurrency": 4,
        "spark": {"cores_per_worker": 2, "decommission": False},
    }
)

POD = {"POD_NAME": "pod-1", "BIND_ADDRESS": "10.0.0.1", "_SPARK_AUTH_SECRET": "of-the-run"}


def _environment(container: dict[str, Any]) -> dict[str, str]:
    return {e["name"]: e["value"] for e in container["env"] if "value" in e} | POD


def _workers() -> dict[str, Any]:
    base = BASE["Deployment/spark-stream-worker"]
    return spark_workers_for_run(base, TARGET, SETTINGS, PLACE, replicas=3)


def test_workers_have_the_name_that_policies_scale() -> None:
    """Name, selector and labels are the stand-in's, so policy, recorder and actions find them."""
    manifest = _workers()

    assert manifest["metadata"]["name"] == CONSUMER_DEPLOYMENT
    assert manifest["spec"]["replicas"] == 3
    template = manifest["spec"]["template"]
    assert manifest["spec"]["selector"]["matchLabels"] == {"app": CONSUMER_DEPLOYMENT}
    assert template["metadata"]["labels"]["app"] == CONSUMER_DEPLOYMENT
    assert template["spec"]["terminationGracePeriodSeconds"] == grace_seconds(SETTINGS)


def test_the_programs_read_the_flags_of_their_manifests() -> None:
    """Worker, master and driver get the scenario's settings through their own command lines."""
    container = pod_spec(_workers())["containers"][0]
    worker = parse_settings(container["args"], _environment(container))
    assert (worker.role, worker.cores_per_worker, worker.decommission) == ("worker", 2, False)
    assert worker.process_ms == SETTINGS.process_ms

    manifest = spark_master_for_run(BASE["Deployment/spark-stream-master"], TARGET, PLACE)
    container = pod_spec(manifest)["containers"][0]
    assert parse_settings(container["args"], _environment(container)).role == "master"

    base = BASE["Deployment/spark-stream-driver"]
    manifest = spark_driver_for_run(base, TARGET, SETTINGS, PLACE, floor_workers=3, seed=7)
    container = pod_spec(manifest)["containers"][0]
    driver = parse_options(container["args"], _environment(container))
    assert (driver.master, driver.jars) == (PLACE.master_url, PLACE.jars)
    assert (driver.checkpoint, driver.floor_workers) == (PLACE.checkpoint, 3)
    assert (driver.group, driver.work_seed) == (TARGET.names.group, 7)
    assert driver.process_ms == SETTINGS.process_ms
    assert driver.max_messages_per_trigger is None


def test_a_cluster_gives_the_pods_their_image_and_the_checkpoint_its_volume() -> None:
    """Spark's image, not the programs'; a folder of the claim for each run."""
    cluster = ClusterSettings(image="registry/programs:1", spark_image="registry/spark:1")
    manifest = _driver(cluster)
    pod = pod_spec(manifest)

    assert [container["image"] for container in pod["containers"]] == ["registry/spark:1"]
    options = parse_options(pod["containers"][0]["args"], _environment(pod["containers"][0]))
    assert options.checkpoint == f"{CHECKPOINT_MOUNT}/one-run"
    (mounted,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "checkpoint")
    assert mounted["mountPath"] == CHECKPOINT_MOUNT
    claims = {
        o["metadata"]["name"] for o in committed_objects() if o["kind"] == "PersistentVolumeClaim"
    }
    assert _checkpoint_volume(pod)["persistentVolumeClaim"]["claimName"] in claims


def test_without_storage_the_checkpoint_ends_with_the_pod() -> None:
    """A claim could never be bound there."""
    pod = pod_spec(_driver(ClusterSettings(storage_class="none")))

    assert _checkpoint_volume(pod) == {"name": "checkpoint", "emptyDir": {}}


def test_a_registry_without_sparks_image_is_refused() -> None:
    """Its pods would wait for an image that nobody has; a kind cluster names neither image."""
    scenario = checked_cell("spark_consumer").scenario
    own = ClusterSettings(image="registry/programs:1")

    with pytest.raises(WrongInput, check=lambda error: error.field == "lagbench_spark_image"):
        refuse_kind_on_cluster(scenario, own)
    refuse_kind_on_cluster(scenario, replace(own, spark_image="registry/spark:1"))
    refuse_kind_on_cluster(scenario, ClusterSettings())
    refuse_kind_on_cluster(checked_cell("quick_spike").scenario, own)


@pytest.mark.parametrize(
    ("variable", "value"), [("SPARK_STREAM_VERSION", "3.5.0"), ("_SPARK_AUTH_SECRET", "")]
)
def test_a_pod_with_another_spark_or_no_secret_is_rejected(variable: str, value: str) -> None:
    """Before a JVM starts; an empty secret would let everybody in."""
    for pod, read in (
        (pod_spec(_driver(ClusterSettings())), parse_options),
        (pod_spec(_workers()), parse_settings),
    ):
        container = pod["containers"][0]
        if (variable, read) == ("_SPARK_AUTH_SECRET", parse_options):
            continue  # the daemons hold the door
        with pytest.raises(WrongInput, check=lambda error: error.field == variable):
            read(container["args"], {**_environment(container), variable: value})  # type: ignore[operator]


def _driver(cluster: ClusterSettings) -> dict[str, Any]:
    base, target = BASE["Deployment/spark-stream-driver"], replace(TARGET, cluster=cluster)
    place = SparkPlace("spark://10.0.0.9:7077", PLACE.version)
    return spark_driver_for_run(base, target, SETTINGS, place, floor_workers=1)


def _checkpoint_volume(pod: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = next(v for v in pod["volumes"] if v["name"] == "checkpoint")
    return found


CELL = checked_cell("quick_spike")
SPARK = checked_cell("spark_consumer").scenario


def pods_of_a_run(settings: ClusterSettings) -> list[dict[str, Any]]:
    """Return the pod specs of all programs of a run."""
    target, scenario = RunTarget(RunNames("a-run"), "kafka:9092", settings), CELL.scenario
    place = SparkPlace("spark://master:7077", "4.2.0")
    manifests = [
        consumer_for_run(
            base_manifest("consumer", "Deployment"), target, scenario.consumer, replicas=1
        ),
        recorder_for_run(base_manifest("recorder", "Deployment"), target),
        lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), target),
        producer_job_for_run(base_manifest("producer", "Job"), target, scenario, tail=None),
        actions_job_for_run(base_manifest("actions", "Job"), target, scenario, CELL.policy.limits),
        *spark_consumer_for_run(
            lambda folder: base_manifest(folder, "Deployment"), target, SPARK, place, replicas=1
        ),
    ]
    return [manifest["spec"]["template"]["spec"] for manifest in manifests]


def test_every_pod_of_a_run_pulls_its_image_with_the_log_in() -> None:
    """The accounts of a run have no Secret of their own: a run creates them anew."""
    pods = pods_of_a_run(ClusterSettings(image_pull_secret="registry-login"))  # noqa: S106 - a name

    assert len(pods) == 8
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "registry-login"}]


SETTINGS_OF_PODS = "kafka-login"


def test_every_pod_has_the_secret_as_a_folder_and_the_file_by_name() -> None:
    """Consumers and recorder have the volume once, read only, and the variable that names it."""
    target = RunTarget(FIRST.names, "kafka:9093", ClusterSettings(kafka_secret=SETTINGS_OF_PODS))
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


def test_the_producer_finds_samples_as_a_file() -> None:
    """The volume is the run's ConfigMap, and its key at the mounted path is the file."""
    job = base_manifest("producer", "Job")
    samples = samples_for_run(b"\xff\n", TARGET)

    pod = with_samples_mounted(job, TARGET)["spec"]["template"]["spec"]

    (volume,) = pod["volumes"]
    (mount,) = pod["containers"][0]["volumeMounts"]
    ((key, text),) = samples["binaryData"].items()
    assert base64.b64decode(text) == b"\xff\n"
    assert samples["metadata"]["labels"] == {RUN_ID_LABEL: "one-run"}
    assert volume == {"name": mount["name"], "configMap": {"name": samples["metadata"]["name"]}}
    assert f"{mount['mountPath']}/{key}" == SAMPLES_FILE
    assert "volumes" not in job["spec"]["template"]["spec"]
