"""A cluster's Kafka with TLS and SASL: the settings of pods and of Airflow, and what is refused."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.fakes.kubeconfig import write_kubeconfig

from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster import KAFKA_SETTINGS_FIELD, ClusterSettings
from lagbench.core.policy import require_kafka_log_in
from lagbench.errors import WrongInput
from lagbench.orchestrator import target
from lagbench.orchestrator.playable import require_playable
from lagbench.orchestrator.target import KUBERNETES_VARIABLE, find_target
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file of settings, and beside it one with a log-in."""
    for variable in (KUBERNETES_VARIABLE, "AIRFLOW_CONN_KAFKA_DEFAULT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "config")))
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(target, "spark_environment", dict)
    login = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    (tmp_path / "login").write_text(f"{login}sasl.username=u\nsasl.password=p\n")
    path = tmp_path / "mine.env"
    path.write_text("NAMESPACE=spikes\nKAFKA_BOOTSTRAP_SERVERS=kafka:9093\n")
    return path


def _add(settings: Path, *lines: str) -> None:
    with settings.open("a") as file:
        file.write("".join(f"{line}\n" for line in lines))


def test_airflow_and_pods_get_the_settings(settings: Path) -> None:
    """The connection has all of them, programs of Airflow the file, and pods the Secret's name."""
    login = settings.with_name("login")
    _add(settings, "KAFKA_SECRET=kafka-login", f"AIRFLOW_KAFKA_CONFIG={login}")
    cluster = find_target("context:prod", settings)
    assert cluster is not None
    connections = cluster.connections()
    kafka = json.loads(connections["AIRFLOW_CONN_KAFKA_DEFAULT"])["extra"]
    assert (kafka["bootstrap.servers"], kafka["sasl.username"]) == ("kafka:9093", "u")
    assert connections[CONFIG_VARIABLE] == str(login)
    assert cluster.fields[KAFKA_SETTINGS_FIELD] == "kafka-login"


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        ("KAFKA_SECRET=kafka-login", "AIRFLOW_KAFKA_CONFIG"),
        ("AIRFLOW_KAFKA_CONFIG=x", "KAFKA_SECRET"),
    ],
)
def test_one_without_the_other_is_refused(settings: Path, line: str, missing: str) -> None:
    """Pods without a log-in, or tasks without one, would fail in the middle of a run."""
    _add(settings, line)
    with pytest.raises(WrongInput) as refused:
        find_target("context:prod", settings)
    assert refused.value.field == missing


@pytest.mark.parametrize(
    ("trigger", "is_refused"),
    [
        ({"type": "kafka", "metadata": {}}, True),
        ({"type": "kafka", "metadata": {}, "authenticationRef": {"name": "login"}}, False),
        ({"type": "kafka", "metadata": {"sasl": "scram_sha512"}}, False),
        ({"type": "kafka", "metadata": {"tls": "enable"}}, False),
        ({"type": "kafka", "metadata": {"tls": "disable"}}, True),
        ({"type": "cron", "metadata": {}}, False),
    ],
)
def test_a_trigger_that_asks_kafka_needs_a_log_in(
    trigger: dict[str, Any], *, is_refused: bool
) -> None:
    """KEDA reads no Secret of the pods."""
    policy = {"kind": "ScaledObject", "spec": {"triggers": [trigger]}}
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
    cluster = find_target("context:prod", settings)
    assert cluster is not None
    monkeypatch.setattr(target, "rights_of_run", lambda *_: pytest.fail("it was asked"))

    with pytest.raises(WrongInput, match="Spark's reader takes PLAIN"):
        cluster.check()
