"""Setup: the rig, a broker with TLS, client certificates and SCRAM, the code of a user's consumer.

1. The Secret of the pods and the TriggerAuthentication of KEDA, as docs/kubernetes.md says.
2. One rehearsal of the user's Deployment. 3. Read what it did, and look for the password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from lagbench.core.cluster.settings import KAFKA_SETTINGS_FOLDER, KAFKA_SETTINGS_KEY
from lagbench.core.scenario.run_names import NAMESPACE
from tests.cluster.cluster_rehearsal import (
    ClusterRehearsal,
    kubectl,
    left_behind,
    rehearsal_on,
    users_code,
)
from tests.cluster.rig.network import NODE_ADDRESS
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA
from tests.integration.secured_broker import PASSWORD, USER, SecuredBroker, secured_broker

pytestmark = pytest.mark.timeout(2700)

SCENARIO = DATA / "scenarios" / "secured_on_cluster.yaml"
POLICY = DATA / "policies" / "lag-tiny.yaml"
MANIFEST = DATA / "own_consumers" / "on-cluster.yaml"
CODE = DATA / "own_consumers" / "secured_consumer.py"
PODS_LOGIN, KEDAS_LOGIN = "kafka-login", "keda-login"
MESSAGES = 150 * 34 + 5 * 150 * 20


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Provide the broker at the node's address."""
    folder = tmp_path_factory.mktemp("secured") / "broker"
    with secured_broker(folder, host=NODE_ADDRESS) as broker:
        yield broker


@pytest.fixture(scope="module")
def home(
    rig: Rig,
    secured: SecuredBroker,
    program_image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig, whose namespace has the code and both log-ins."""
    folder = tmp_path_factory.mktemp("secured-home")
    with (
        rehearsal_on(rig, secured.broker, folder) as home,
        users_code(rig, CODE),
        _logins(rig, secured, folder),
    ):
        airflows = folder / "airflow.properties"
        airflows.write_text(_lines(secured.tls_settings(folder)))
        home.settings.write_text(
            f"NAMESPACE={NAMESPACE}\nSTORAGE_CLASS=none\n"
            f"KAFKA_BOOTSTRAP_SERVERS={secured.tls_servers}\n"
            f"KAFKA_SECRET={PODS_LOGIN}\nAIRFLOW_KAFKA_CONFIG={airflows}\n"
        )
        yield home


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal) -> int:
    """Run the user's Deployment under a policy whose trigger logs in."""
    manifest = yaml.safe_load(MANIFEST.read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["command"] = ["python", f"/code/{CODE.name}"]
    deployment = home.root / "secured.yaml"
    deployment.write_text(yaml.safe_dump(manifest))
    policy = yaml.safe_load(POLICY.read_text())
    (trigger,) = policy["spec"]["triggers"]
    trigger["authenticationRef"] = {"name": KEDAS_LOGIN}
    scaled = home.root / POLICY.name
    scaled.write_text(yaml.safe_dump(policy))
    return home.finish_files(SCENARIO, scaled, f"consumer.manifest={deployment}")


def test_each_message_is_accounted_for(home: ClusterRehearsal, exit_code: int) -> None:
    """Generator, recorder, the user's pods, Airflow's tasks and Spark all logged in."""
    accounting = home.read("accounting.json")

    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    assert home.slo("lost")["status"] == home.unfailed, home.output()
    assert accounting["in_log"] == accounting["processed_distinct"] >= MESSAGES
    assert accounting["lost"] == accounting["foreign_ledger_records"] == 0


def test_keda_logs_in_by_its_trigger_authentication(home: ClusterRehearsal, exit_code: int) -> None:
    """It saw the lag of the spike: more than one pod, and the floor after it."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] > 1
    assert measures["end_state"]["is_at_floor"]


def test_no_file_of_the_run_has_the_password(home: ClusterRehearsal, exit_code: int) -> None:
    """The pods had it from the Secret alone."""
    files = [path for path in home.folder().rglob("*") if path.is_file()]

    assert not [path for path in files if PASSWORD in path.read_text("latin1")]


def test_nothing_is_left_but_what_is_the_teams(
    rig: Rig, secured: SecuredBroker, home: ClusterRehearsal, exit_code: int
) -> None:
    """No object, topic or group of the run stays; the Secret and the code are not the run's."""
    assert left_behind(rig, secured.broker, home) == []
    assert PODS_LOGIN in kubectl(rig, "-n", NAMESPACE, "get", "secrets", "-o=name")
    assert "orders-code" in kubectl(rig, "-n", NAMESPACE, "get", "configmaps", "-o=name")


@contextmanager
def _logins(rig: Rig, secured: SecuredBroker, folder: Path) -> Iterator[None]:
    """Put the Secret of the pods and KEDA's log-in into the namespace, for a while."""
    settings = secured.settings_with_files_in(Path(KAFKA_SETTINGS_FOLDER))
    pods = {f"{name}.pem": text for name, text in secured.client_pem.items()}
    pods |= {**settings, KAFKA_SETTINGS_KEY: _lines(settings)}
    kedas = {"tls": "enable", "sasl": "scram_sha512", "username": USER, "password": PASSWORD}
    kedas |= secured.client_pem
    path = folder / "logins.yaml"
    path.write_text(
        yaml.safe_dump_all(
            [_secret(PODS_LOGIN, pods), _secret(KEDAS_LOGIN, kedas), _authentication(kedas)]
        )
    )
    kubectl(rig, "apply", "-f", str(path))
    try:
        yield
    finally:
        kubectl(rig, "delete", "-f", str(path))


def _lines(settings: dict[str, str]) -> str:
    return "".join(f"{k}={v}\n" for k, v in settings.items() if k != "bootstrap.servers")


def _secret(name: str, values: dict[str, str]) -> dict[str, object]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def _authentication(values: dict[str, str]) -> dict[str, object]:
    """Return the TriggerAuthentication whose parameters are the keys of KEDA's Secret."""
    references = [{"parameter": key, "name": KEDAS_LOGIN, "key": key} for key in values]
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "TriggerAuthentication",
        "metadata": {"name": KEDAS_LOGIN, "namespace": NAMESPACE},
        "spec": {"secretTargetRef": references},
    }
