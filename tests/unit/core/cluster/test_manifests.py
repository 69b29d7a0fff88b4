"""Manifests of a run: what each program reads from its own, and what a cluster needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.core.cluster.consumer_pod import container_of, options_of, read_by
from tests.unit.plugins.conftest import SCENARIO, workload

from lagbench.adapters.kube.cluster_check import base_manifest
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import (
    ConsumersWay,
    RunTarget,
    claim_for_cluster,
    companion_for_run,
    consumer_for_run,
    lag_scaler_for_run,
    prometheus_for_run,
    recorder_for_run,
    set_settings,
)
from lagbench.core.cluster.policy_manifest import iggy_addresses
from lagbench.core.cluster.run_jobs import (
    actions_job_for_run,
    broker_proxy_for_run,
    producer_job_for_run,
)
from lagbench.core.scenario.message_costs import DownstreamPace, PoisonedKey
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.scenario.profiles import Stage, StagesProfile
from lagbench.core.scenario.run_names import (
    BROKER_PROXY,
    RUN_ID_LABEL,
    RunNames,
)
from lagbench.core.scenario.scenario import ConsumerSettings, PartitionPlan, Scenario
from lagbench.core.scenario.stream_start import StartDelay
from lagbench.core.scenario.stream_tail import Tail
from lagbench.programs.actions.player import parse_options
from lagbench.programs.producer.producer_settings import ProducerSettings, read_settings
from lagbench.programs.recorder.sources import parse_options as parse_recorder
from lagbench.programs.tcp_proxy.orders import parse_settings

NAMES = RunNames("quick-spike-1")
TARGET = RunTarget(NAMES, "127.0.0.1:19092")
CLUSTER = ClusterSettings(namespace="spikes", image="example.com/programs:1", storage_class="fast")
ELSEWHERE = RunTarget(NAMES, "kafka:9092", CLUSTER)
CONSUMER, RECORDER = workload("Deployment", "consumer"), workload("Deployment", "recorder")
SCALER = workload("Deployment", "lagbench-lag-scaler")


def consumer(settings: dict[str, Any] | None = None, **of_run: Any) -> dict[str, Any]:
    """Return the consumers' workload of a run with two replicas."""
    found = ConsumerSettings.model_validate(settings or {})
    return consumer_for_run(CONSUMER, TARGET, found, replicas=2, **of_run)


def producer(changes: dict[str, Any] | None = None, **of_run: Any) -> ProducerSettings:
    """Return what the producer of a run reads."""
    scenario = Scenario.model_validate(SCENARIO | (changes or {}))
    job = producer_job_for_run(
        workload("Job", "producer"), TARGET, scenario, **{"tail": None, **of_run}
    )
    return read_by(read_settings, job)


def test_a_consumer_reads_the_scenario_s_settings() -> None:
    """A distribution, switches and numbers, whatever the committed flags say."""
    cost = {"kind": "lognormal", "mean_ms": 8, "p99_ms": 40}
    given = {
        "process_ms": cost,
        "cpu_ms": 1.5,
        "concurrency": 3,
        "balancer": "range",
        "work": "waited",
    }
    switches = {"graceful_shutdown": False, "static_membership": True}
    found = options_of(consumer(given | switches | {"shutdown_timeout_seconds": 7}))

    settings = ConsumerSettings.model_validate(given)
    assert (found.group, found.process_ms) == (NAMES.group, settings.process_ms)
    assert (found.cpu_ms, found.concurrency, found.balancer) == (1.5, 3, "range")
    assert found.work == "waited"
    assert (found.graceful_shutdown, found.static_membership) == (False, True)
    assert (found.shutdown_timeout_seconds, found.identity) == (7, "value")


def test_a_consumer_reads_what_its_run_does_to_it() -> None:
    """Poison, seed, a slow downstream, the delay of its start, the place of the identity."""
    poison = PoisonedKey(
        entity_id=17, effect="hang", from_offset_ns=1, until_offset_ns=2, attempts=3, hang_ns=4
    )
    pace = DownstreamPace.of_rows([(20, 30, 3), (40, 45, 2.5)])
    start = StartDelay(1.2, seed=11)
    made = consumer(poison=poison, pace=pace, start=start, seed=11, has_payload=True)
    found, plain = options_of(made), consumer()

    assert (found.work_seed, found.poison, found.identity) == (11, poison, "headers")
    assert found.pace.slowdowns == pace.slowdowns
    assert found.start_delay_seconds == start.of_pod(5)
    field = next(e for e in container_of(made)["env"] if e["name"] == "POD_ORDINAL")["valueFrom"]
    assert field == {"fieldRef": {"fieldPath": "metadata.annotations['lagbench.io/ordinal']"}}
    assert options_of(plain).pace.is_even
    assert "POD_ORDINAL" not in {entry["name"] for entry in container_of(plain)["env"]}
    assert options_of(plain).start_delay_seconds == 0


def test_the_consumers_deployment_fits_the_run() -> None:
    """Replicas, requests, labels and a grace period beyond the shutdown timeout are set."""
    requests = {"cpu_request_millicores": 150, "memory_request_mebibytes": 200}
    manifest = consumer({"shutdown_timeout_seconds": 20, **requests})

    pod = manifest["spec"]["template"]["spec"]
    assert manifest["spec"]["replicas"] == 2
    assert pod["terminationGracePeriodSeconds"] > 20
    assert pod["containers"][0]["resources"]["requests"] == {"cpu": "150m", "memory": "200Mi"}
    assert manifest["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] == NAMES.run_id
    assert RUN_ID_LABEL not in manifest["spec"]["selector"]["matchLabels"]
    assert "--kept=1" in pod["containers"][0]["args"]
    assert not {"volumes", "imagePullSecrets"} & pod.keys()
    twice = consumer_for_run(consumer(), TARGET, ConsumerSettings(), replicas=2)
    assert twice == consumer()


def test_the_consumers_may_be_a_stateful_set() -> None:
    """The kind follows the scenario, and no pod waits for another one; the rest stays."""
    manifest = consumer({"workload": "StatefulSet"})

    assert (manifest["apiVersion"], manifest["kind"]) == ("apps/v1", "StatefulSet")
    assert manifest["spec"].pop("podManagementPolicy") == "Parallel"
    assert {**manifest, "kind": "Deployment"} == consumer()


def test_the_producer_reads_the_scenario_s_load() -> None:
    """Profile, keys, seed, the planned start and the tail; a Job is never started again."""
    at_ns = 1_795_423_187_000_000_000
    found = producer({"seed": 7}, starts_at_ns=at_ns, tail=Tail(100.5, 320.0))

    assert found.load == offered_load(Scenario.model_validate(SCENARIO).profile)
    assert found.load.total == 100 * 5 + 1000 * 10 + 100 * 5
    assert (found.flags.seed, found.flags.partitions, found.flags.starts_at_ns) == (7, 4, at_ns)
    assert (found.flags.topic, found.profile_kind) == (NAMES.events_topic, "step")
    assert found.tail == Tail(100.5, 320.0)
    assert found.whole_load.duration_seconds == found.load.duration_seconds + 320
    assert (producer().flags.starts_at_ns, producer().tail) == (0, None)
    scenario = Scenario.model_validate(SCENARIO)
    job = producer_job_for_run(workload("Job", "producer"), TARGET, scenario, tail=None)
    assert job["metadata"]["name"] == NAMES.producer_job
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_the_producer_learns_when_its_topic_grows() -> None:
    """The plan of the scenario's actions reaches the producer's own parser."""
    growth = {"kind": "grow_partitions", "at_seconds": 2.5, "partitions": 8}

    assert producer({"actions": [growth]}).partition_plan(4) == PartitionPlan(4, ((2.5, 8),))


def test_a_payload_travels_to_the_producer(tmp_path: Path) -> None:
    """It reads the samples with their key; the run's id is in the identity of each."""
    file = tmp_path / "payload.txt"
    file.write_text('{"user": "u-1"}\n{"user": "u-2"}\n')
    payload = {"file": "orders.jsonl", "key_field": "user"}
    found = producer({"payload": payload}, payload_file=str(file))

    assert found.flags.run_id == NAMES.run_id
    assert found.samples is not None
    assert found.samples.keys == (b"u-1", b"u-2")


def test_a_dollar_sign_of_a_setting_is_the_program_s() -> None:
    """Kubernetes replaces $(NAME) in variables, and makes one sign of two."""
    container: dict[str, Any] = {"args": ["--id=a", "--run-id=b", "--kept"]}

    set_settings(container, {"run_id": "r", "id": "a-$(POD_NAME)"})
    set_settings(container, {"more": 1})

    (variable,) = container["env"]
    assert variable["value"] == '{"run_id":"r","id":"a-$$(POD_NAME)","more":1}'
    assert container["args"] == ["--kept"]


@pytest.mark.parametrize(
    ("asked", "on_embedded", "on_cluster"),
    [(None, True, False), (True, True, True), (False, False, False)],
)
def test_aliases_of_metrics_are_for_the_embedded_bench(
    asked: bool | None, on_embedded: bool, on_cluster: bool
) -> None:
    """On a cluster other exporters may tell the same series, so there they must be asked for."""
    target = RunTarget(NAMES, "kafka:9092", ClusterSettings(metric_aliases=asked))

    for is_embedded, is_on in ((True, on_embedded), (False, on_cluster)):
        made = recorder_for_run(RECORDER, target, is_embedded=is_embedded)
        assert read_by(parse_recorder, made).has_metric_aliases is is_on


def test_the_recorder_observes_the_run() -> None:
    """Namespace, workload, image, and the bench's own processes; its log-in is a variable."""
    target = replace(ELSEWHERE, workload="StatefulSet")
    made = recorder_for_run(RECORDER, target, observed_pids={"broker": 12}, kubeconfig="/k")
    found = read_by(parse_recorder, made)

    assert (found.namespace, found.workload, found.observed_pids) == (
        *("spikes", "StatefulSet"),
        {"broker": 12},
    )
    assert container_of(made)["image"] == "example.com/programs:1"
    for manifest, has in ((made, True), (recorder_for_run(RECORDER, TARGET), False)):
        names = {entry["name"] for entry in container_of(manifest)["env"]}
        assert ("KUBECONFIG" in names) is has


def test_prometheus_and_lag_scaler_get_the_run_s_addresses() -> None:
    """The scaler's own Kafka is the only one to which it sends the login that the pods have."""
    scaler = lag_scaler_for_run(SCALER, TARGET, iggy_addresses=["iggy"])
    prometheus = prometheus_for_run(RECORDER, TARGET, scraped_address="127.0.0.1:31000")

    values = {one["name"]: one.get("value") for one in container_of(scaler)["env"]}
    assert values["KAFKA_BROKERS"] == "127.0.0.1:19092"
    assert values["ALLOWED_BROKERS"] == "127.0.0.1:19092,iggy:8090"
    scraped = {"name": "SCRAPED_ADDRESS", "value": "127.0.0.1:31000"}
    assert scraped in container_of(prometheus)["env"]
    address = "lagbench-lag-scaler.lagbench:6000"
    metadata = [
        {"scalerAddress": address, "source": "iggy", "serverAddress": "iggy:8090"},
        {"scalerAddress": address, "consumerGroup": "g"},
        {"scalerAddress": "another:6000", "serverAddress": "evil:1"},
    ]
    triggers = [{"type": "external", "metadata": each} for each in metadata]
    assert iggy_addresses({"spec": {"triggers": triggers}}) == ["iggy:8090"]


def test_companions_are_the_run_s() -> None:
    """A budget covers the run's pods alone; a RoleBinding names the account of its namespace."""
    account = {"kind": "ServiceAccount", "name": "recorder", "namespace": "lagbench"}
    binding = {"kind": "RoleBinding", "metadata": {"name": "recorder"}, "subjects": [account]}
    selector = {"matchLabels": {"app": "consumer"}}
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "consumer"},
        "spec": {"maxUnavailable": 1, "selector": selector},
    }

    bound, made = (companion_for_run(one, ELSEWHERE) for one in (binding, budget))

    assert bound["subjects"][0]["namespace"] == "spikes"
    assert bound["metadata"]["labels"] == {RUN_ID_LABEL: NAMES.run_id}
    wanted = {"app": "consumer", RUN_ID_LABEL: NAMES.run_id}
    assert made["spec"]["selector"] == {"matchLabels": wanted}
    assert selector == {"matchLabels": {"app": "consumer"}}


def test_the_scaler_s_storage_is_a_setting() -> None:
    """A class goes into the claim; with `none` there is no claim and the volume is a folder."""
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "state"}, "spec": {}}
    deployment = workload("Deployment", "lagbench-lag-scaler")
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
    deployment["spec"]["template"]["spec"]["volumes"] = [volume]
    nowhere = RunTarget(NAMES, "kafka:9092", ClusterSettings(storage_class="none"))

    made = claim_for_cluster(claim, ELSEWHERE)

    assert made is not None
    assert (made["metadata"]["namespace"], made["spec"]["storageClassName"]) == ("spikes", "fast")
    assert claim_for_cluster(claim, nowhere) is None
    for target, volumes in ((nowhere, [{"name": "state", "emptyDir": {}}]), (ELSEWHERE, [volume])):
        pod = lag_scaler_for_run(deployment, target)["spec"]["template"]["spec"]
        assert pod["volumes"] == volumes


@pytest.mark.parametrize("mark", [True, None])
def test_lag_is_drained_after_the_last_spike_marked_or_not(mark: bool | None) -> None:
    """2 pods do 1,000/s: the rate of the second stage is a spike by the rule."""
    cell = checked_cell("quick_spike")
    stages = ((15, 600, None), (60, 6000, mark), (10, 600, None))
    profile = StagesProfile(
        kind="stages",
        stages=tuple(Stage(seconds=s, rate_per_second=r, is_spike=m) for s, r, m in stages),
    )
    scenario = cell.scenario.model_copy(update={"profile": profile})
    target = RunTarget(RunNames("a-run"), "kafka:9092")

    job = actions_job_for_run(base_manifest("actions", "Job"), target, scenario, cell.policy.limits)

    assert read_by(parse_options, job).drained_after_seconds == 75


PROXIED_RUN = RunNames("quick-spike-1")
PROXIED = RunTarget(PROXIED_RUN, "127.0.0.1:19092")


def test_consumers_behind_the_proxy_report_over_the_direct_way() -> None:
    """Work goes to the proxy's address, telemetry to Kafka's; without a way both are Kafka's."""
    deployment = base_manifest("consumer", "Deployment")
    way = ConsumersWay("127.0.0.1:9095", "127.0.0.1:9092")

    behind = consumer_for_run(deployment, PROXIED, ConsumerSettings(), replicas=2, way=way)
    direct = consumer_for_run(deployment, PROXIED, ConsumerSettings(), replicas=2)

    found = options_of(behind)
    assert (found.bootstrap_servers, found.telemetry_servers) == (
        "127.0.0.1:9095",
        "127.0.0.1:9092",
    )
    found = options_of(direct)
    assert (found.bootstrap_servers, found.telemetry_servers) == ("127.0.0.1:19092", "")


def test_the_proxy_stands_between_the_brokers_two_ports() -> None:
    """Its own parser reads them; the committed ports are replaced, and it ends with the run."""
    proxy = broker_proxy_for_run(
        base_manifest("broker-proxy", "Deployment"), PROXIED, listen_port=9095, upstream_port=9094
    )

    settings = read_by(parse_settings, proxy)
    assert (settings.listen_port, settings.upstream_port) == (9095, 9094)
    assert proxy["metadata"]["name"] == BROKER_PROXY
    assert proxy["metadata"]["labels"][RUN_ID_LABEL] == PROXIED_RUN.run_id
    assert proxy["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] == PROXIED_RUN.run_id
