"""What the hooks make of Airflow's connections, and the lag that they read."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import validate
from kubernetes.client import Configuration
from kubernetes.config import incluster_config
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.adapters.kafka import kafka_lag
from lagbench.core.keda.loop.source_metrics import PartitionOffsets
from lagbench.errors import NotReady, WrongInput
from lagbench_airflow.hooks import kafka
from lagbench_airflow.hooks.kube import open_kube
from lagbench_airflow.hooks.target import target_name
from lagbench_airflow.provider_info import KAFKA, get_provider_info

VARIABLE = "AIRFLOW_CONN_KUBERNETES_DEFAULT"


@pytest.mark.parametrize(
    ("offsets", "lag"),
    [
        (PartitionOffsets(end=10, committed=7), 3),
        # Deleted messages are no lag: the partition keeps those from its oldest offset on.
        (PartitionOffsets(end=10, committed=None, earliest=4), 6),
        # A topic that was created again has commits of the earlier one: no negative lag.
        (PartitionOffsets(end=2, committed=9), 0),
        # An unknown offset is no lag of zero.
        (PartitionOffsets(end=None, committed=1), None),
        (PartitionOffsets(end=3, committed=None), None),
    ],
)
def test_the_lag_of_a_partition(
    monkeypatch: pytest.MonkeyPatch, offsets: PartitionOffsets, lag: int | None
) -> None:
    """It is what the group has not committed; unknown offsets fail the reading."""
    monkeypatch.setattr(kafka_lag, "read_partitions", lambda *_: [2])
    monkeypatch.setattr(kafka_lag, "read_offsets", lambda *_, **__: {("orders", 2): offsets})
    reader = kafka_lag.open_admin("127.0.0.1:1")
    try:
        if lag is None:
            with pytest.raises(NotReady, match="orders partition 2"):
                reader.lags("billing", "orders")
        else:
            assert reader.lags("billing", "orders") == {2: lag}
    finally:
        reader.close()


def test_a_connection_that_loads_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may edit connections need not run code on the worker; the Test button says why."""
    extra = {"bootstrap.servers": "127.0.0.1:1", "plugin.library.paths": "/tmp/evil.so"}  # noqa: S108
    monkeypatch.setattr(kafka, "connection", lambda *_: SimpleNamespace(extra_dejson=extra))

    with pytest.raises(WrongInput, match=r"plugin\.library\.paths"):
        kafka.KafkaHook().get_conn()
    assert kafka.KafkaHook().test_connection()[0] is False


def test_the_provider_s_metadata_is_what_airflow_wants() -> None:
    """By its schema, and all that it names is there."""
    schema = json.loads(files("airflow").joinpath("provider_info.schema.json").read_text())
    info = get_provider_info()

    validate(info, schema)
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for module in info[kind][0]["python-modules"]:
            import_module(module)
    named = [*info["extra-links"], KAFKA["hook-class-name"]]
    for module, _, kind in (str(one).rpartition(".") for one in named):
        assert isinstance(getattr(import_module(module), kind), type)


@pytest.fixture(autouse=True)
def default_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back the library's default, which the provider's hook may set."""
    monkeypatch.setattr(Configuration, "_default", None)


def connect(monkeypatch: pytest.MonkeyPatch, **extra: object) -> None:
    """Define the connection."""
    found = {"conn_type": "kubernetes", "extra": json.dumps(extra)}
    monkeypatch.setenv(VARIABLE, json.dumps(found))


def kubeconfig(*ports: int) -> dict[str, Any]:
    """Return a kubeconfig with a context for each port, of which the first is the current one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": f"c{ports[0]}",
        "users": [{"name": "me", "user": {"token": "secret"}}],
        "clusters": [
            {"name": f"c{port}", "cluster": {"server": f"https://127.0.0.1:{port}"}}
            for port in ports
        ],
        "contexts": [
            {"name": f"c{port}", "context": {"cluster": f"c{port}", "user": "me"}} for port in ports
        ],
    }


def test_a_file_and_its_context_are_the_connection_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The path and the context of the connection decide which API server is asked."""
    path = tmp_path / "config"
    path.write_text(json.dumps(kubeconfig(6001, 6002)))
    connect(monkeypatch, kube_config_path=str(path), cluster_context="c6002", namespace="ours")

    kube = open_kube()

    assert kube.api_client.configuration.host == "https://127.0.0.1:6002"
    assert kube.namespace == "ours"


def test_a_kubeconfig_in_the_connection_itself_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider takes a whole kubeconfig, so the bench does; nobody else is logged in by it."""
    connect(monkeypatch, kube_config=kubeconfig(6003), disable_verify_ssl=True)

    configuration = open_kube().api_client.configuration

    assert configuration.host == "https://127.0.0.1:6003"
    assert configuration.verify_ssl is False
    assert Configuration.get_default_copy().host != configuration.host


def test_a_pod_uses_its_own_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a cluster the account's token logs in, and the client has the patience asked for."""
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("of-the-pod")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr("ssl.SSLContext.load_verify_locations", lambda *_, **__: None)
    connect(monkeypatch, in_cluster="true")

    configuration = open_kube(patience_seconds=45).api_client.configuration

    assert configuration.host == "https://10.0.0.1:443"
    assert configuration.auth_settings()["BearerToken"]["value"] == "bearer of-the-pod"
    assert configuration.retries.connect > 20


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"kube_config_path": "/nowhere/config"}, "kubernetes_default"),
        ({"kube_config_path": "/nowhere", "in_cluster": True}, "kubernetes_default"),
        # The provider would look for a cluster by itself: a rehearsal must not land in it.
        (None, "is not defined"),
    ],
)
def test_a_connection_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any] | None, said: str
) -> None:
    """No such file, two ways at once, or nobody defined it."""
    if extra is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        connect(monkeypatch, **extra)

    with pytest.raises(NotReady, match=said):
        open_kube()


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"kube_config": kubeconfig(6004)}, "server:https://127.0.0.1:6004"),
        ({"kube_config": kubeconfig(6005)}, "server:https://127.0.0.1:6005"),
        ({"kube_config": kubeconfig(6005), "cluster_context": "c6005"}, "context:c6005"),
        ({"in_cluster": True}, "context:in_cluster"),
        ({"extra__kubernetes__in_cluster": True}, "context:in_cluster"),
    ],
)
def test_runs_on_two_clusters_are_no_runs_of_one_cell(
    monkeypatch: pytest.MonkeyPatch, extra: dict[str, Any], name: str
) -> None:
    """A kubeconfig without a named context is known by its server, not as the pod's own cluster."""
    connect(monkeypatch, **extra)

    assert target_name() == name
