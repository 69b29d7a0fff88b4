"""Where a rehearsal runs, and what the file of a cluster's settings may say."""

from __future__ import annotations

import base64
import contextlib
import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import pytest
from tests.fakes.kubeconfig import write_kubeconfig
from tests.fakes.policies import cron, kafka, scaled_object

from lagbench.adapters.kube.kube import Kube
from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import KAFKA_SETTINGS_FIELD, ClusterSettings
from lagbench.core.policy.policy import Policy, require_kafka_log_in
from lagbench.errors import LagbenchError, NotAllowed, NotReady, UnknownKind, WrongInput
from lagbench.orchestrator import target
from lagbench.orchestrator.observed_target import find_workload
from lagbench.orchestrator.target import (
    KUBERNETES_VARIABLE,
    ClusterTarget,
    find_target,
    require_playable,
)
from pod_program.kafka_config import CONFIG_VARIABLE


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of settings, and beside it one with a log-in to Kafka."""
    for variable in (KUBERNETES_VARIABLE, "AIRFLOW_CONN_KAFKA_DEFAULT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config")))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    (tmp_path / "login").write_text(f"{login}sasl.username=u\nsasl.password=p\n")
    monkeypatch.setattr(target, "spark_environment", dict)
    path = tmp_path / "mine.env"
    path.write_text(
        "# mine\nNAMESPACE=spikes\nIMAGE=example.com/programs:1\nSTORAGE_CLASS=none\n"
        "KAFKA_BOOTSTRAP_SERVERS=kafka:9092\nKAFKA_REPLICATION_FACTOR=3\nMETRIC_ALIASES=on\n"
    )
    return path


def found(name: str, settings: Path | None) -> ClusterTarget:
    """Return the cluster."""
    cluster = find_target(name, settings)
    assert cluster is not None
    return cluster


def test_a_context_gives_the_connections(
    settings: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tasks get kubeconfig, context and settings; Airflow reaches Kafka as the pods do."""
    monkeypatch.setattr(target, "spark_environment", dict)

    connections = found("context:prod", settings).connections()

    assert json.loads(connections[KUBERNETES_VARIABLE])["extra"] == {
        "kube_config_path": str(tmp_path / "config"),
        "cluster_context": "prod",
        "namespace": "spikes",
        "lagbench_image": "example.com/programs:1",
        "lagbench_storage_class": "none",
        "lagbench_bootstrap_servers": "kafka:9092",
        "lagbench_replication_factor": "3",
        "lagbench_metric_aliases": "on",
    }
    kafka = json.loads(connections["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]
    assert kafka == {"bootstrap.servers": "kafka:9092"}


@pytest.mark.parametrize(
    ("name", "line", "field"),
    [
        ("", "", "--target"),
        ("minikube", "", "--target"),
        ("context:", "", "--target"),
        ("context: ", "", "--target"),
        ("context:elsewhere", "", "--target"),
        ("embedded", "", "--target-settings"),  # its settings are a mistake
        ("context:prod", "NAMESPACES=a", "line 8"),
        ("context:prod", "IMAGE", "line 8"),
        ("context:prod", "NAMESPACE=UPPER", "NAMESPACE"),
        ("context:prod", "STORAGE_CLASS=a b", "STORAGE_CLASS"),
        # Pods without a log-in, or tasks without one, would fail in the middle of a run.
        ("context:prod", "KAFKA_SECRET=kafka-login", "AIRFLOW_KAFKA_CONFIG"),
        ("context:prod", "AIRFLOW_KAFKA_CONFIG=x", "KAFKA_SECRET"),
    ],
)
def test_what_names_no_target_is_refused(settings: Path, name: str, line: str, field: str) -> None:
    """By its place; a mistyped context with those that there are."""
    _add(settings, line)
    with pytest.raises(WrongInput) as refused:
        find_target(name, settings)

    assert field.lower() in str(refused.value).lower()
    if line:
        assert refused.value.where == str(settings)
    if name == "context:elsewhere":
        assert "context:prod" in refused.value.allowed


def test_what_is_not_there_is_named(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, or the cluster of ``make kind``; a connection is not shown: a password is in it."""
    assert find_target("embedded", None) is None
    with pytest.raises(WrongInput, match=r"absent\.env"):
        find_target("context:prod", settings.with_name("absent.env"))
    with pytest.raises(NotReady, match="make kind"):
        find_target("kind", None)
    monkeypatch.setenv(KUBERNETES_VARIABLE, "secret")
    with pytest.raises(WrongInput, match=KUBERNETES_VARIABLE) as refused:
        find_target("context:prod", settings)
    assert "secret" not in str(refused.value)


def test_the_committed_settings_are_read(settings: Path, tmp_path: Path) -> None:
    """Both overlays' files are right; kind's names other servers for Airflow."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kind.kubeconfig").write_text("{}")

    kind = found("kind", None)

    assert kind.bootstrap_servers == "localhost:30092"
    assert kind.fields["lagbench_bootstrap_servers"].startswith("kafka.lagbench.svc")
    assert found("context:prod", None).fields["namespace"] == "lagbench"


@pytest.mark.parametrize("content", [None, "clusters: [", ""])
def test_a_kubeconfig_that_cannot_be_used_is_not_ready(
    content: str | None, settings: Path, tmp_path: Path
) -> None:
    """Without a kubeconfig that can be read, it is named, and nothing advises to start a bench."""
    (tmp_path / "config").unlink()
    if content is not None:
        (tmp_path / "config").write_text(content)

    with pytest.raises(NotReady, match=r"config.*KUBECONFIG") as error:
        find_target("context:prod", settings)

    assert "lagbench up" not in str(error.value)


def test_a_clean_up_waits_for_the_api_server(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls are repeated during an outage: nobody cleans up after the clean-up."""
    asked: list[Any] = []

    def keep(kube: Kube, *_: object, **__: object) -> None:
        asked.append(kube.api_client.configuration.retries)

    monkeypatch.setattr(target, "clear_cluster", keep)
    monkeypatch.setattr(target, "KafkaAdmin", lambda _: contextlib.nullcontext())

    found("context:prod", settings).clean_up(lambda _: None)

    assert asked[0].status_forcelist
    assert asked[0].connect > 20


def token_for(minutes: float) -> str:
    """Return a token of a service account that ends in so many minutes."""
    claims = json.dumps({"exp": int(time.time() + 60 * minutes)}).encode()
    return f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.signed"


@pytest.mark.parametrize(
    ("minutes", "seconds", "reason"),
    [
        (-5, 0, "ended at"),
        (30, 3600, "60 minutes"),
        (90, 3600, None),
        (None, 3600, None),
    ],
)
def test_a_token_that_ends_before_the_run_is_refused(
    settings: Path, tmp_path: Path, minutes: float | None, seconds: float, reason: str | None
) -> None:
    """The message names what writes a new one; a token that states no end is fine."""
    token = "secret" if minutes is None else token_for(minutes)
    write_kubeconfig(tmp_path / "config", bearer=token)
    cluster = found("context:prod", settings)

    if reason is None:
        cluster.require_log_in(for_seconds=seconds)
        return
    with pytest.raises(NotReady, match=reason) as refused:
        cluster.require_log_in(for_seconds=seconds)
    assert "k8s/runner-kubeconfig.sh" in str(refused.value)


def _add(settings: Path, *lines: str) -> None:
    with settings.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_airflow_and_pods_get_the_settings(settings: Path) -> None:
    """The connection has all of them, programs of Airflow the file, and pods the Secret's name.

    Airflow may reach Kafka by another address; the pods' address stays what it is.
    """
    login, servers = settings.with_name("login"), "AIRFLOW_KAFKA_BOOTSTRAP_SERVERS=localhost:30092"
    _add(settings, "KAFKA_SECRET=kafka-login", f"AIRFLOW_KAFKA_CONFIG={login}", servers)
    cluster = found("context:prod", settings)
    connections = cluster.connections()
    kafka = json.loads(connections["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]
    assert (kafka["bootstrap.servers"], kafka["sasl.username"]) == ("localhost:30092", "u")
    assert connections[CONFIG_VARIABLE] == str(login)
    assert cluster.fields[KAFKA_SETTINGS_FIELD] == "kafka-login"
    assert cluster.fields["lagbench_bootstrap_servers"] == "kafka:9092"


@pytest.mark.parametrize(
    ("trigger", "is_refused"),
    [
        (kafka(), True),
        ({**kafka(sasl="scram_sha512"), "authenticationRef": {"name": "login"}}, False),
        (kafka(tls="enable"), False),
        (kafka(tls="disable"), True),
        (cron(), False),
    ],
)
def test_a_trigger_that_asks_kafka_needs_a_log_in(
    trigger: dict[str, Any], *, is_refused: bool
) -> None:
    """KEDA reads no Secret of the pods."""
    policy = Policy.read(scaled_object(triggers=[trigger]), where="policy")
    with pytest.raises(WrongInput) if is_refused else nullcontext():
        require_kafka_log_in(policy, where="policy")


@pytest.mark.parametrize("secret", [None, "kafka-login"])
def test_a_cell_without_a_log_in_is_refused(tmp_path: Path, secret: str | None) -> None:
    """That is said before anything starts; a Kafka without log-ins needs none."""
    cell, settings = checked_cell("quick_spike"), ClusterSettings(kafka_secret=secret)
    if secret is None:
        require_playable(cell, settings, tmp_path)
    else:
        with pytest.raises(WrongInput, match="authenticationRef"):
            require_playable(cell, settings, tmp_path)


def test_settings_that_spark_cannot_have_are_refused_before_the_run(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reads the run's topics when all is measured: the cluster is not asked anything."""
    login = settings.with_name("login")
    login.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.config=x=y\n"
    )
    _add(settings, "KAFKA_SECRET=kafka-login", f"AIRFLOW_KAFKA_CONFIG={login}")
    cluster = found("context:prod", settings)
    monkeypatch.setattr(target, "rights_of_run", lambda *_: pytest.fail("it was asked"))

    with pytest.raises(WrongInput, match="Spark's reader takes PLAIN"):
        cluster.check()


DEPLOYMENT = {"spec": {"selector": {"matchLabels": {"app": "shop"}}}}

HPA = {
    "metadata": {"name": "shop-hpa"},
    "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "shop"}},
}

DENIED = NotAllowed("could not list ScaledObject: answered 403")

NOT_SERVED = UnknownKind("does not serve that kind")


class Cluster:
    """A namespace whose objects of a kind are a list, or an error."""

    namespace = "default"

    def __init__(self, **kinds: list[dict[str, Any]] | LagbenchError) -> None:
        """Hold the answer for each kind."""
        self._kinds = kinds

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the Deployment shop, and no other object."""
        return DEPLOYMENT if (kind, name) == ("Deployment", "shop") else None

    def list(self, kind: str) -> list[dict[str, Any]]:
        """Return or raise the answer for the kind."""
        found = self._kinds[kind]
        if isinstance(found, LagbenchError):
            raise found
        return found


@pytest.mark.parametrize(
    ("scaled_objects", "hpas", "policy", "unread"),
    [
        (NOT_SERVED, [HPA], "HorizontalPodAutoscaler shop-hpa", []),
        (NOT_SERVED, [], None, []),
        ([], [], None, []),
        (DENIED, [], None, ["ScaledObject: could not list"]),
        (DENIED, [HPA], "HorizontalPodAutoscaler shop-hpa", ["ScaledObject: could not list"]),
        (DENIED, DENIED, None, ["ScaledObject: ", "HorizontalPodAutoscaler: "]),
    ],
)
def test_a_policy_that_cannot_be_read_is_not_called_none(
    scaled_objects: Any, hpas: Any, policy: str | None, unread: list[str]
) -> None:
    """A kind that is not served scales nothing; one that may not be read is unknown, with why."""
    cluster = Cluster(ScaledObject=scaled_objects, HorizontalPodAutoscaler=hpas)

    found = find_workload(cast("Kube", cluster), "shop", None)

    assert found.policy_name == policy
    assert all(part in found.policy_unknown for part in unread)
    assert bool(found.policy_unknown) == bool(unread)
