"""Patchers of manifests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from tests.unit.core.cluster.consumer_pod import container_of, options_of
from tests.unit.plugins.conftest import SCENARIO, workload

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.cluster.jobs import producer_job_for_run
from lagbench.core.cluster.manifests import (
    RunTarget,
    consumer_for_run,
    prometheus_for_run,
    recorder_for_run,
)
from lagbench.core.scenario.downstream_pace import DownstreamPace
from lagbench.core.scenario.partition_plan import PartitionPlan
from lagbench.core.scenario.poison import PoisonedKey
from lagbench.core.scenario.run_names import (
    RUN_ID_LABEL,
    RunNames,
)
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.scenario.start_delay import StartDelay
from lagbench.core.scenario.stream.profile import offered_load
from lagbench.core.scenario.stream.tail import Tail
from lagbench.programs.consumer.settings import parse_options
from lagbench.programs.producer.flags import read_settings
from lagbench.programs.recorder.settings import parse_options as parse_recorder_options

NAMES = RunNames("quick-spike-1")
TARGET = RunTarget(NAMES, "127.0.0.1:19092")


def test_prometheus_scrapes_the_recorder_of_the_run() -> None:
    """Its Deployment has the run's label and the address that it is given."""
    committed = base_manifest("prometheus", "Deployment")

    made = prometheus_for_run(committed, TARGET, scraped_address="127.0.0.1:31000")

    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert {"name": "SCRAPED_ADDRESS", "value": "127.0.0.1:31000"} in container["env"]
    assert made["metadata"]["labels"][RUN_ID_LABEL] == NAMES.run_id


def test_the_consumer_understands_its_arguments() -> None:
    """The consumer's own parser reads the scenario's settings from the manifest."""
    settings = ConsumerSettings(
        process_ms=2.5,
        concurrency=3,
        balancer="range",
        graceful_shutdown=False,
        static_membership=True,
    )

    manifest = consumer_for_run(workload("Deployment", "consumer"), TARGET, settings, replicas=2)

    container = manifest["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    options = parse_options(arguments, environment | {"POD_NAME": "consumer-0"})
    assert options.group == NAMES.group
    assert (options.process_ms, options.concurrency, options.balancer) == (2.5, 3, "range")
    assert (options.graceful_shutdown, options.static_membership) == (False, True)
    assert options.shutdown_timeout_seconds == settings.shutdown_timeout_seconds


def test_costs_and_poison_travel_to_the_pod() -> None:
    """The pod reads distribution, CPU time, seed and poisoned key as the scenario has them."""
    cost = {"kind": "lognormal", "mean_ms": 8, "p99_ms": 40}
    settings = ConsumerSettings.model_validate({"process_ms": cost, "cpu_ms": 1.5})
    poison = PoisonedKey(
        entity_id=17,
        effect="hang",
        from_offset_ns=1,
        until_offset_ns=2,
        attempts=3,
        hang_ns=4,
    )

    manifest = consumer_for_run(
        workload("Deployment", "consumer"), TARGET, settings, replicas=2, seed=11, poison=poison
    )

    container = manifest["spec"]["template"]["spec"]["containers"][0]
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    environment = {"POD_NAME": "consumer-x", "KAFKA_BOOTSTRAP_SERVERS": "b:1"}
    options = parse_options(arguments, environment)
    assert (options.process_ms, options.cpu_ms) == (settings.process_ms, 1.5)
    assert (options.work_seed, options.poison) == (11, poison)


def test_the_producer_starts_the_stream_when_it_is_planned() -> None:
    """The instant reaches the producer as its flag; without one it starts at once."""
    scenario = Scenario.model_validate(SCENARIO)
    jobs = [
        producer_job_for_run(
            workload("Job", "producer"), TARGET, scenario, tail=None, starts_at_ns=at_ns
        )
        for at_ns in (None, 1_795_423_187_000_000_000)
    ]

    starts = []
    for job in jobs:
        container = job["spec"]["template"]["spec"]["containers"][0]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        arguments = [argument for argument in container["args"] if argument != "--kept=1"]
        starts.append(read_settings(arguments, environment).starts_at_ns)
    assert starts == [0, 1_795_423_187_000_000_000]


def test_a_payload_travels_to_producer_and_consumers(tmp_path: Path) -> None:
    """The producer reads the samples with their key, and the pods look for headers."""
    file = tmp_path / "payload.txt"
    file.write_text('{"user": "u-1"}\n{"user": "u-2"}\n')
    payload = {"file": "orders.jsonl", "key_field": "user"}
    scenario = Scenario.model_validate({**SCENARIO, "payload": payload})

    job = producer_job_for_run(
        workload("Job", "producer"), TARGET, scenario, tail=None, payload_file=str(file)
    )
    deployment = workload("Deployment", "consumer")
    identities = []
    for has in (True, False):
        made = consumer_for_run(deployment, TARGET, ConsumerSettings(), replicas=2, has_payload=has)
        container_of(made)["args"].remove("--kept=1")
        identities.append(options_of(made).identity)

    container = container_of(job)
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    settings = read_settings(arguments, environment)
    assert settings.run_id == NAMES.run_id
    assert settings.samples is not None
    assert settings.samples.keys == (b"u-1", b"u-2")
    assert identities == ["headers", "value"]


def test_a_start_delay_travels_with_mean_seed_and_the_pods_number() -> None:
    """The consumer draws from the manifest and localkube's note what the simulation draws."""
    start = StartDelay(1.2, seed=11)

    manifest = consumer_for_run(
        workload("Deployment", "consumer"), TARGET, ConsumerSettings(), replicas=2, start=start
    )

    container = manifest["spec"]["template"]["spec"]["containers"][0]
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    field = next(e for e in container["env"] if e["name"] == "POD_ORDINAL")["valueFrom"]
    assert field == {"fieldRef": {"fieldPath": "metadata.annotations['lagbench.io/ordinal']"}}
    environment = {"POD_NAME": "consumer-x", "KAFKA_BOOTSTRAP_SERVERS": "b:1", "POD_ORDINAL": "5"}
    options = parse_options(arguments, environment)
    assert options.start_delay_seconds == start.of_pod(5)


def test_a_slow_downstream_travels_to_each_pod() -> None:
    """The consumer reads the pace that the scenario's actions give."""
    pace = DownstreamPace.of_text("20-30x3,40-45x2.5")
    deployment = base_manifest("consumer", "Deployment")

    slow = consumer_for_run(deployment, TARGET, ConsumerSettings(), replicas=2, pace=pace)
    even = consumer_for_run(
        deployment, TARGET, ConsumerSettings(), replicas=2, pace=DownstreamPace()
    )

    assert options_of(slow).pace.slowdowns == pace.slowdowns
    assert not any("slow" in text for text in container_of(even)["args"])


def test_without_a_start_delay_a_pod_just_starts() -> None:
    """On a cluster nothing is added to what starting takes there."""
    manifest = consumer_for_run(
        workload("Deployment", "consumer"), TARGET, ConsumerSettings(), replicas=2
    )

    container = manifest["spec"]["template"]["spec"]["containers"][0]
    assert not [argument for argument in container["args"] if "start-" in argument]
    assert "POD_ORDINAL" not in {entry["name"] for entry in container["env"]}


def test_the_consumers_deployment_fits_the_run() -> None:
    """Replicas, requests, labels and a grace period beyond the shutdown timeout are set."""
    settings = ConsumerSettings(
        shutdown_timeout_seconds=20, cpu_request_millicores=150, memory_request_mebibytes=200
    )

    manifest = consumer_for_run(workload("Deployment", "consumer"), TARGET, settings, replicas=2)

    pod = manifest["spec"]["template"]["spec"]
    assert manifest["spec"]["replicas"] == 2
    assert pod["terminationGracePeriodSeconds"] > 20
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "150m", "memory": "200Mi"}
    assert manifest["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] == NAMES.run_id
    assert RUN_ID_LABEL not in manifest["spec"]["selector"]["matchLabels"]
    assert "--kept=1" in pod["containers"][0]["args"]


def test_the_consumers_may_be_a_stateful_set() -> None:
    """The kind follows the scenario, and no pod waits for another one; the rest stays."""
    deployment = workload("Deployment", "consumer")
    as_deployment = consumer_for_run(deployment, TARGET, ConsumerSettings(), replicas=2)

    settings = ConsumerSettings(workload="StatefulSet")
    manifest = consumer_for_run(deployment, TARGET, settings, replicas=2)

    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "StatefulSet")
    assert manifest["spec"].pop("podManagementPolicy") == "Parallel"
    assert {**manifest, "kind": "Deployment"} == as_deployment


def test_the_recorder_observes_the_consumers_workload() -> None:
    """A StatefulSet is named in its flags, which its parser understands."""
    made = recorder_for_run(
        workload("Deployment", "recorder"), replace(TARGET, workload="StatefulSet")
    )

    arguments = made["spec"]["template"]["spec"]["containers"][0]["args"]
    flags = [argument for argument in arguments if argument != "--kept=1"]
    environment = {"KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"}
    assert parse_recorder_options(flags, environment).workload == "StatefulSet"


def test_the_producer_learns_when_its_topic_grows() -> None:
    """The plan of the scenario's actions reaches the producer's own parser."""
    growth = {"kind": "grow_partitions", "at_seconds": 2.5, "partitions": 8}
    scenario = Scenario.model_validate(SCENARIO | {"actions": [growth]})

    job = producer_job_for_run(workload("Job", "producer"), TARGET, scenario, tail=None)

    container = job["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    settings = read_settings(arguments, environment)
    found = PartitionPlan.of_text(settings.partitions or 0, settings.growths)
    assert found == scenario.partition_plan == PartitionPlan(4, ((2.5, 8),))


def test_patching_twice_is_patching_once() -> None:
    """An argument that is there already is replaced, not repeated."""
    settings = ConsumerSettings()
    once = consumer_for_run(workload("Deployment", "consumer"), TARGET, settings, replicas=2)

    assert consumer_for_run(once, TARGET, settings, replicas=2) == once


def test_the_producer_understands_its_job() -> None:
    """The producer's own parser reads the scenario's load from the manifest."""
    scenario = Scenario.model_validate(SCENARIO | {"seed": 7})

    job = producer_job_for_run(workload("Job", "producer"), TARGET, scenario, tail=None)

    container = job["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    settings = read_settings(arguments, environment)
    assert settings.growths == ""
    assert settings.load.total == 100 * 5 + 1000 * 10 + 100 * 5
    assert (settings.seed, settings.partitions) == (7, 4)
    assert settings.topic == NAMES.events_topic
    assert json.loads(environment["PROFILE_JSON"])["kind"] == "step"


def test_the_producer_understands_its_tail() -> None:
    """Rate and bound of the tail reach the producer as its flags; the planned load stays."""
    scenario = Scenario.model_validate(SCENARIO)

    job = producer_job_for_run(
        workload("Job", "producer"), TARGET, scenario, tail=Tail(100.5, 320.0)
    )

    container = job["spec"]["template"]["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"]}
    arguments = [argument for argument in container["args"] if argument != "--kept=1"]
    settings = read_settings(arguments, environment)
    assert settings.tail == Tail(100.5, 320.0)
    assert settings.load == offered_load(scenario.profile)
    assert settings.whole_load.duration_seconds == settings.load.duration_seconds + 320


def test_a_producer_is_never_started_again() -> None:
    """A Job that restarts its pod would inject a second spike."""
    scenario = Scenario.model_validate(SCENARIO)

    job = producer_job_for_run(workload("Job", "producer"), TARGET, scenario, tail=None)

    assert job["metadata"]["name"] == NAMES.producer_job
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"
