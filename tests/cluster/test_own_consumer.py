"""Setup: the rig, a broker with TLS, client certificates and SCRAM, the code of a user's consumer.

1. The Secret of the pods and the TriggerAuthentication of KEDA, as docs/kubernetes.md says.
2. One rehearsal of the user's Deployment. 3. Read what it did, and look for the password.
4. The same Deployment without a securityContext, which the namespace does not admit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from lagbench.core.cluster.cluster_settings import KAFKA_SETTINGS_FOLDER, KAFKA_SETTINGS_KEY
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import ExitCode
from tests.cluster.cluster_rehearsal import (
    ClusterRehearsal,
    kubectl,
    left_behind,
    rehearsal_on,
    users_code,
)
from tests.cluster.fault_bystanders import BUILT_IN, objects
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
WARN = "pod-security.kubernetes.io/warn"
WORDS = 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'


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
def policy(home: ClusterRehearsal) -> Path:
    """Return a policy whose trigger logs in."""
    policy = yaml.safe_load(POLICY.read_text())
    (trigger,) = policy["spec"]["triggers"]
    trigger["authenticationRef"] = {"name": KEDAS_LOGIN}
    path = home.root / POLICY.name
    path.write_text(yaml.safe_dump(policy))
    return path


@pytest.fixture(scope="module")
def exit_code(home: ClusterRehearsal, policy: Path) -> int:
    """Run the user's Deployment once for the tests of a run."""
    return home.finish_files(SCENARIO, policy)


@pytest.fixture(scope="module")
def unprotected(home: ClusterRehearsal) -> Path:
    """Return the user's manifest without any securityContext."""
    found = yaml.safe_load(MANIFEST.read_text())
    pod = found["spec"]["template"]["spec"]
    for part in (pod, *pod["containers"]):
        del part["securityContext"]
    path = home.root / "unprotected.yaml"
    path.write_text(yaml.safe_dump(found))
    return path


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


def test_a_restart_gives_the_pods_other_variables(home: ClusterRehearsal, exit_code: int) -> None:
    """The pods of the run's end wrote what they have: $(POD_NAME) is the consumer's, not ours."""
    (action,) = home.read("measures.json")["actions"]

    assert (action["problem"], action["detail"]) == ("", "with other values of MODE")
    logs = sorted(home.folder().glob("logs/consumer-*.log"))
    assert logs
    assert [path.read_text().splitlines()[0] for path in logs] == [
        f"mode second-{path.stem}" for path in logs
    ]


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


def test_pods_that_the_namespace_rejects_are_refused_before_a_run(
    rig: Rig, home: ClusterRehearsal, policy: Path, unprotected: Path
) -> None:
    """Exit 2 with the file, the level and the fields to set; nothing is created."""
    before = set(objects(rig, NAMESPACE, kinds=BUILT_IN))
    runs = set((home.root / "runs").glob("*"))

    code = home.finish_files(SCENARIO, policy, f"consumer.manifest={unprotected}")

    printed = " ".join(home.output().split())
    assert code == ExitCode.WRONG_INPUT, printed
    assert f"{unprotected.name}: spec.template = " in printed
    assert "runAsNonRoot=true" in printed
    assert set(objects(rig, NAMESPACE, kinds=BUILT_IN)) == before
    assert set((home.root / "runs").glob("*")) == runs


def test_pods_that_kubernetes_refuses_end_the_run(
    rig: Rig, secured: SecuredBroker, home: ClusterRehearsal, policy: Path, unprotected: Path
) -> None:
    """A namespace that does not warn shows it on the pods alone: the run ends with their words."""
    kubectl(rig, "label", "--overwrite", "namespace", NAMESPACE, f"{WARN}=privileged")

    code = home.finish_files(SCENARIO, policy, f"consumer.manifest={unprotected}")

    kubectl(rig, "label", "--overwrite", "namespace", NAMESPACE, f"{WARN}=restricted")
    printed = " ".join(home.output().split())
    assert code == ExitCode.NOT_READY, printed
    assert "Deployment/consumer" in printed
    assert unprotected.name in printed
    assert WORDS in printed
    lines = (home.folder() / "phases.jsonl").read_text().splitlines()
    tries = [one for one in map(json.loads, lines) if one["name"] == "run_consumers"]
    assert [one["state"] for one in tries] == ["started", "failed"]  # tried once
    assert left_behind(rig, secured.broker, home) == []


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
