"""A user's Deployment as the workload of a run, on a cluster and on one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.own_deployment import (
    KafkaSettings,
    OwnDeployment,
    own_consumer_for_cluster,
    own_deployment,
)
from lagbench.core.cluster.own_process import OwnProcess, own_consumer_as_process
from lagbench.core.scenario.run_names import RunNames
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

SECRET = "kafka-login"  # noqa: S105 - the name of an object
DATA = PROJECT_ROOT / "tests/data/own_consumers"
TARGET = RunTarget(RunNames("spike-1"), "127.0.0.1:9092")
PLAIN = KafkaSettings({"bootstrap.servers": "127.0.0.1:9092"})

SECURED = KafkaSettings(
    {
        "bootstrap.servers": "kafka:9093",
        "security.protocol": "SASL_SSL",
        "sasl.username": "orders",
        "sasl.password": "open-sesame-4711",
    },
    "/state/kafka-client.properties",
)

LOGIN = {
    "PROTOCOL": "{kafka.security.protocol}",
    "JAAS": 'user="{kafka.sasl.username}" password="{kafka.sasl.password}";',
    "CONFIG": "{kafka_config}",
}

ENV = {"KAFKA_BROKERS": "{bootstrap_servers}", "TOPIC": "{topic}", "GROUP": "{group}"}


def settings(**fields: Any) -> ConsumerSettings:
    """Return settings of consumer.kind own."""
    known = {"kind": "own", "manifest": "x.yaml", "accounting": "commits", "env": ENV}
    return ConsumerSettings.model_validate({**known, **fields})


def read(name: str, container: str | None = None) -> OwnDeployment:
    """Return one of the ordinary manifests."""
    documents = list(yaml.safe_load_all((DATA / name).read_text()))
    return own_deployment(documents, where=name, container=container)


def process(
    own: OwnDeployment, environment: dict[str, str], kafka: KafkaSettings = PLAIN, **fields: Any
) -> OwnProcess:
    """Return the workload of the embedded bench."""
    return own_consumer_as_process(
        own,
        TARGET,
        settings(**fields),
        replicas=2,
        environment=environment,
        folder="/home/me",
        kafka=kafka,
    )


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the consumer's container."""
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return found


def variables(container: dict[str, Any]) -> dict[str, Any]:
    """Return the variables: a value, or where it comes from."""
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in container["env"]}


def test_the_run_sets_name_labels_and_scale_target() -> None:
    """The policy scales Deployment consumer, and its selector finds the pods of the template."""
    manifest = own_consumer_for_cluster(read("probes.yaml"), TARGET, settings(), replicas=2)

    assert manifest["metadata"]["name"] == "consumer"
    assert manifest["metadata"]["labels"]["team"] == "checkout"
    assert manifest["spec"]["replicas"] == 2
    labels = manifest["spec"]["template"]["metadata"]["labels"]
    assert manifest["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels["lagbench.io/run-id"] == "spike-1"


def test_a_cluster_gets_all_of_the_pod() -> None:
    """Probes, account, limits and image are as written; the run's variables replace the user's."""
    own = read("probes.yaml")

    manifest = own_consumer_for_cluster(own, TARGET, settings(), replicas=2)

    pod = manifest["spec"]["template"]["spec"]
    changed = {**container_of(manifest), "env": own.container["env"]}
    assert changed == own.container
    assert {**pod, "containers": own.pod["containers"]} == own.pod
    assert variables(container_of(manifest))["KAFKA_BROKERS"] == "127.0.0.1:9092"
    assert variables(container_of(manifest))["TOPIC"] == "lagbench.spike-1.events"
    assert own.container["env"][0]["value"] == "kafka:9092", "the file's own object is unchanged"


def test_a_process_gets_a_port_of_its_own_and_the_probes_on_it() -> None:
    """A probe is kept where the scenario tells the process its port; exec is left out."""
    own = read("probes.yaml")

    found = process(own, {}, env={**ENV, "PORT": "{port.http}"}, args=["--group={group}"])

    container = container_of(found.workload)
    assert variables(container)["PORT"] == "$(PORT_HTTP)"
    assert container["args"] == ["--verbose", "--group=enrich.spike-1"]
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "http"}
    assert "livenessProbe" in container
    assert "startupProbe" not in container
    assert any("startupProbe" in note for note in found.notes)
    spec = found.workload["spec"]["template"]["spec"]
    assert spec["terminationGracePeriodSeconds"] == 45
    assert container["workingDir"] == "/home/me"


def test_a_probe_on_a_port_that_the_process_does_not_know_is_left_out() -> None:
    """Processes share the machine's ports: no fixed one can be probed, and the note says how."""
    found = process(read("probes.yaml"), {})

    assert not {"readinessProbe", "livenessProbe"} & set(container_of(found.workload))
    assert any("{port.8080}" in note for note in found.notes)
    assert any("serviceAccountName" in note for note in found.notes)


def test_secrets_come_from_the_file_of_variables() -> None:
    """EnvFrom and secretKeyRef read one Secret of the run; an optional key may be missing."""
    found = process(read("secret.yaml"), {"DATABASE_PASSWORD": "a", "API_URL": "b"})

    container = container_of(found.workload)
    (secret,) = found.beside
    assert secret["stringData"] == {"DATABASE_PASSWORD": "a", "API_URL": "b"}
    assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
    of_file = {"name": secret["metadata"]["name"], "key": "DATABASE_PASSWORD"}
    assert variables(container)["DATABASE_PASSWORD"] == {"secretKeyRef": of_file}
    assert "FEATURE_FLAGS" not in variables(container)
    assert any("FEATURE_FLAGS" in note for note in found.notes)
    assert any("Service" in note for note in found.notes)


def test_config_maps_and_empty_folders_are_folders() -> None:
    """Texts that begin with a mounted path get the folder's; sidecars and hooks are left out."""
    found = process(read("volume-sidecar.yaml", "orders"), {})

    container = container_of(found.workload)
    assert container["args"] == ["--config=$(VOLUME_CONFIG)/orders.yaml"]
    assert variables(container)["CACHE"] == "$(VOLUME_CACHE)"
    names = [one["name"] for one in found.workload["spec"]["template"]["spec"]["volumes"]]
    assert names == ["config", "cache"]
    assert [one["kind"] for one in found.beside] == ["ConfigMap"]
    said = " ".join(found.notes)
    for left_out in ("migrate", "proxy", "preStop", "workingDir"):
        assert left_out in said


def _no_command(own: dict[str, Any]) -> None:
    del own["containers"][1]["command"]


def _host_path(own: dict[str, Any]) -> None:
    own["containers"][1]["volumeMounts"].append({"name": "for-proxy", "mountPath": "/run"})


def _resource(own: dict[str, Any]) -> None:
    source = {"resourceFieldRef": {"resource": "limits.memory"}}
    own["containers"][1]["env"].append({"name": "MEMORY", "valueFrom": source})


def _secret(own: dict[str, Any]) -> None:
    source = {"secretKeyRef": {"name": "db", "key": "password"}}
    own["containers"][1]["env"].append({"name": "PASSWORD", "valueFrom": source})


def _no_map(own: dict[str, Any]) -> None:
    own["volumes"][0]["configMap"]["name"] = "other"


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (_no_command, "containers[1].command"),
        (_host_path, "volumes[2].hostPath"),
        (_resource, "containers[1].env[1].valueFrom"),
        (_secret, "containers[1].env[1].valueFrom.secretKeyRef"),
        (_no_map, "volumes[0].configMap"),
    ],
)
def test_what_a_process_would_miss_is_refused_by_its_place(
    change: Callable[[dict[str, Any]], None], place: str
) -> None:
    """The error names file and place, before anything starts."""
    documents = list(yaml.safe_load_all((DATA / "volume-sidecar.yaml").read_text()))
    change(documents[1]["spec"]["template"]["spec"])

    with pytest.raises(WrongInput) as refused:
        process(own_deployment(documents, where="orders.yaml", container="orders"), {})

    assert refused.value.where == "orders.yaml"
    assert refused.value.field == f"spec.template.spec.{place}"


@pytest.mark.parametrize(
    ("documents", "field"),
    [
        ([], "kind"),
        ([{"kind": "StatefulSet"}], "kind"),
        (["text"], "kind"),
        ([{"kind": "Deployment", "spec": {"template": {}}}], "spec.template.spec.containers"),
    ],
)
def test_a_file_without_one_deployment_is_refused(documents: list[Any], field: str) -> None:
    """The file has one Deployment with a container."""
    with pytest.raises(WrongInput) as refused:
        own_deployment(documents, where="x.yaml")

    assert refused.value.field == field


def test_an_unknown_port_is_refused() -> None:
    """A scenario names ports that the container has."""
    with pytest.raises(WrongInput, match=r"\{port.metrics\}"):
        process(read("probes.yaml"), {}, env={**ENV, "PORT": "{port.metrics}"})


def test_the_ledgers_topic_is_told_without_a_placeholder() -> None:
    """With accounting ledger the module finds topic and pod in its environment."""
    found = process(read("probes.yaml"), {}, accounting="ledger")

    told = variables(container_of(found.workload))
    assert told["LAGBENCH_LEDGER_TOPIC"] == "lagbench.spike-1.processed"
    assert told["LAGBENCH_POD"] == {"fieldRef": {"fieldPath": "metadata.name"}}


@pytest.mark.parametrize("as_process", [True, False])
def test_a_replaced_variable_keeps_its_place(as_process: bool) -> None:
    """Later ones refer to it, and Kubernetes knows only those before; a Secret is not missed."""
    secret = {"secretKeyRef": {"name": "db", "key": "heap"}}
    own = own_deployment(
        [
            {
                "kind": "Deployment",
                "spec": {
                    "template": {
                        "spec": {
                            "containers": [
                                {
                                    "name": "orders",
                                    "command": ["java"],
                                    "env": [
                                        {"name": "HEAP", "valueFrom": secret},
                                        {"name": "OPTIONS", "value": "-Xmx$(HEAP)"},
                                    ],
                                }
                            ]
                        }
                    }
                },
            }
        ],
        where="x.yaml",
    )
    consumer = settings(env={**ENV, "HEAP": "256m"})

    if as_process:
        workload = process(own, {}, env={**ENV, "HEAP": "256m"}).workload
    else:
        workload = own_consumer_for_cluster(own, TARGET, consumer, replicas=1)

    env = container_of(workload)["env"]
    names = [one["name"] for one in env]
    assert names[:3] == ["LAGBENCH_POD", "HEAP", "OPTIONS"]
    assert env[1] == {"name": "HEAP", "value": "256m"}


def test_the_log_in_comes_from_a_secret_and_a_file() -> None:
    """On one machine: no manifest but the Secret has a value, and the file is the bench's."""
    found = process(read("probes.yaml"), {}, SECURED, env={**ENV, **LOGIN})

    texts = variables(container_of(found.workload))
    login = {"name": "consumer-kafka", "key": "sasl.password"}
    assert texts["LAGBENCH_KAFKA_SASL_PASSWORD"] == {"secretKeyRef": login}
    assert texts["PROTOCOL"] == "$(LAGBENCH_KAFKA_SECURITY_PROTOCOL)"
    assert texts["JAAS"] == (
        'user="$(LAGBENCH_KAFKA_SASL_USERNAME)" password="$(LAGBENCH_KAFKA_SASL_PASSWORD)";'
    )
    assert texts["CONFIG"] == "/state/kafka-client.properties"
    (secret,) = (one for one in found.beside if one["metadata"]["name"] == "consumer-kafka")
    assert secret["stringData"] == {
        "security.protocol": "SASL_SSL",
        "sasl.username": "orders",
        "sasl.password": "open-sesame-4711",
    }
    assert "open-sesame" not in yaml.safe_dump(found.workload)


def test_a_cluster_has_the_log_in_from_the_secret_of_its_settings() -> None:
    """Its keys are the settings, and the consumer has it as a folder."""
    target = RunTarget(TARGET.names, "kafka:9093", ClusterSettings(kafka_secret=SECRET))

    manifest = own_consumer_for_cluster(
        read("probes.yaml"), target, settings(env={**ENV, **LOGIN}), replicas=1
    )

    container = container_of(manifest)
    texts = variables(container)
    login = {"name": "kafka-login", "key": "sasl.password"}
    assert texts["LAGBENCH_KAFKA_SASL_PASSWORD"] == {"secretKeyRef": login}
    assert texts["CONFIG"] == "/etc/lagbench/kafka/client.properties"
    assert container["volumeMounts"][-1]["mountPath"] == "/etc/lagbench/kafka"
    volume = manifest["spec"]["template"]["spec"]["volumes"][-1]
    assert volume["secret"]["secretName"] == "kafka-login"


def test_a_plain_kafka_has_a_protocol_and_no_other_setting() -> None:
    """A placeholder without a value is refused by the field of the scenario."""
    own = read("probes.yaml")
    protocol = {**ENV, "PROTOCOL": "{kafka.security.protocol}"}
    (secret,) = process(own, {}, env=protocol).beside
    assert secret["stringData"] == {"security.protocol": "plaintext"}

    for name in ("{kafka.sasl.password}", "{kafka_config}"):
        with pytest.raises(WrongInput) as refused:
            process(own, {}, env={**ENV, "LOGIN": name})
        assert (refused.value.field, refused.value.value) == ("consumer.env.LOGIN", name)


NONE_MISSING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def own(**spec: Any) -> OwnDeployment:
    """Return an ordinary Deployment with those fields."""
    found = read("probes.yaml")
    found.deployment["spec"].update(spec)
    return found


@pytest.mark.parametrize(
    "spec",
    [
        {"strategy": {"type": "Recreate"}},
        {"strategy": NONE_MISSING, "minReadySeconds": 20},
        {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}},
        {},
    ],
)
def test_strategy_and_ready_time_are_kept(spec: dict[str, Any]) -> None:
    """A rolling restart is played with the limits of the file, and one without has the defaults."""
    played = process(own(**spec), {}).workload["spec"]

    assert {key: played[key] for key in ("strategy", "minReadySeconds") if key in played} == spec


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"strategy": {"type": "Rolling"}}, "spec.strategy.type"),
        ({"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}, "rollingUpdate"),
        ({"strategy": {"rollingUpdate": {"maxSurge": "some"}}}, "rollingUpdate.maxSurge"),
        (
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}},
            "rollingUpdate.maxUnavailable",
        ),
    ],
)
def test_what_a_cluster_would_reject_is_rejected(spec: dict[str, Any], field: str) -> None:
    """Before anything starts, by its field."""
    with pytest.raises(WrongInput) as refused:
        process(own(**spec), {})

    assert refused.value.field.endswith(field)
