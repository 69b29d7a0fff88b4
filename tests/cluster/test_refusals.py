"""Setup: the rig, a broker, a home without history. Runs that must not begin, told before any part.

Each test takes away or adds one thing, asks for a run, and looks that nothing was started.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from lagbench.core.cluster.lease import LEASE
from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    NAMESPACE,
    RUN_ID_ANNOTATION,
)
from lagbench.embedded.broker import Broker
from lagbench.errors import ExitCode
from lagbench.project import PROJECT_ROOT
from tests.cluster.cluster_rehearsal import CONTEXT, ClusterRehearsal, kubectl, rehearsal_on
from tests.cluster.fault_bystanders import BUILT_IN, objects
from tests.cluster.lagging_group import scaled_object
from tests.cluster.rig.rig import Rig

FOREIGN = "orders-scaler"
HALF = "half-runner"


@pytest.fixture(scope="module")
def home(
    rig: Rig, rig_broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig that never runs anything: no image is needed."""
    with rehearsal_on(rig, rig_broker, tmp_path_factory.mktemp("refused")) as home:
        shutil.rmtree(home.root / "state")  # a refused run makes nothing there
        yield home


def test_a_foreign_scaled_object_is_named(rig: Rig, home: ClusterRehearsal) -> None:
    """A ScaledObject of somebody else on the consumers: exit 3 with its name, and it stays."""
    foreign = scaled_object(NAMESPACE, FOREIGN, scaleTargetRef={"name": CONSUMER_DEPLOYMENT})
    kubectl(rig, "apply", "-f", str(_manifest(home.root, foreign)))
    versions = "-o=jsonpath={.metadata.generation} {.spec}"
    before = kubectl(rig, "-n", NAMESPACE, "get", "scaledobject", FOREIGN, versions)

    printed = _refusal(rig, home)

    after = kubectl(rig, "-n", NAMESPACE, "get", "scaledobject", FOREIGN, versions)
    kubectl(rig, "-n", NAMESPACE, "delete", "scaledobject", FOREIGN)
    assert f"ScaledObject/{FOREIGN}" in printed
    assert "another namespace" in printed
    assert after == before


def test_a_foreign_hpa_of_the_policies_name_is_named(rig: Rig, home: ClusterRehearsal) -> None:
    """It scales something else, but a run would force its own HPA into it: exit 3, and it stays."""
    theirs = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "consumer", "namespace": NAMESPACE},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 2,
        },
    }
    kubectl(rig, "apply", "-f", str(_manifest(home.root, theirs)))

    printed = _refusal(rig, home)

    target = "-o=jsonpath={.spec.scaleTargetRef.name}"
    after = kubectl(rig, "-n", NAMESPACE, "get", "hpa", "consumer", target)
    kubectl(rig, "-n", NAMESPACE, "delete", "hpa", "consumer")
    assert "HorizontalPodAutoscaler/consumer" in printed
    assert after == "web"


def test_an_account_of_the_recorder_s_name_is_named(rig: Rig, home: ClusterRehearsal) -> None:
    """A run would replace it, and delete it at its end: exit 3, and it stays."""
    kubectl(rig, "-n", NAMESPACE, "create", "serviceaccount", "recorder")

    printed = _refusal(rig, home)

    kubectl(rig, "-n", NAMESPACE, "delete", "serviceaccount", "recorder")
    assert "ServiceAccount/recorder" in printed


@pytest.mark.parametrize(
    ("group", "resource", "verb"),
    [
        ("keda.sh", "scaledobjects", "patch"),
        ("batch", "jobs", "delete"),
        ("coordination.k8s.io", "leases", "update"),
    ],
)
def test_a_missing_right_is_named(
    rig: Rig, home: ClusterRehearsal, group: str, resource: str, verb: str
) -> None:
    """An account that lacks one verb of the runner's Role: exit 3 with verb and resource."""
    path = _manifest(home.root, *_account_without(group, resource, verb))
    kubectl(rig, "apply", "-f", str(path))
    token = kubectl(rig, "-n", NAMESPACE, "create", "token", HALF).strip()

    printed = _refusal(rig, replace(home, kubeconfig=_kubeconfig(home, token=token)))

    kubectl(rig, "delete", "-f", str(path))
    named = f"{resource}.{group}" if group else resource
    assert f"that a run needs: {verb} on {named}. " in printed
    assert "k8s/base/runner/rbac.yaml" in printed


def test_a_rehearsal_of_another_airflow_is_named(rig: Rig, home: ClusterRehearsal) -> None:
    """Its Lease on the namespace: exit 3 with holder, run, since, until; the Lease stays as it was.

    Once it has expired by the API server's clock it is no reason any more.
    """
    spec = {
        "holderIdentity": "elsewhere-1a2b3c4d",
        "acquireTime": "2026-01-01T10:00:00.000000Z",
        "renewTime": "2026-01-01T10:00:00.000000Z",
        "leaseDurationSeconds": 2_000_000_000,
    }
    kubectl(rig, "apply", "-f", str(_manifest(home.root, _lease(spec))))
    before = kubectl(rig, "-n", NAMESPACE, "get", "lease", LEASE, "-o=jsonpath={.metadata}{.spec}")

    printed = _refusal(rig, home)

    after = kubectl(rig, "-n", NAMESPACE, "get", "lease", LEASE, "-o=jsonpath={.metadata}{.spec}")
    brief = _lease({**spec, "leaseDurationSeconds": 3600})
    kubectl(rig, "apply", "-f", str(_manifest(home.root, brief)))
    kubectl(rig, "-n", NAMESPACE, "create", "serviceaccount", "recorder")
    reported_later = _refusal(rig, home)  # for another reason
    kubectl(rig, "-n", NAMESPACE, "delete", "serviceaccount", "recorder")
    kubectl(rig, "-n", NAMESPACE, "delete", "lease", LEASE)
    for named in ("elsewhere-1a2b3c4d (run theirs)", " 2026-01-01T10:00:00Z", " 2089-"):
        assert named in printed
    assert f"kubectl -n {NAMESPACE} delete lease {LEASE}" in printed
    assert after == before
    assert "elsewhere" not in reported_later
    assert "ServiceAccount/recorder" in reported_later


def test_an_unreachable_api_server_is_reported(rig: Rig, home: ClusterRehearsal) -> None:
    """Nobody listens where the context says: exit 3 with the address."""
    away = "https://127.0.0.1:1"

    printed = _refusal(rig, replace(home, kubeconfig=_kubeconfig(home, server=away)))

    assert f"{away} does not answer" in printed


def test_a_cluster_without_keda_is_refused(rig: Rig, home: ClusterRehearsal) -> None:
    """KEDA is not installed: exit 3, and the message says how to install it."""
    with rig.without_keda_installed():
        printed = _refusal(rig, home)

    assert "no KEDA" in printed
    assert "helm install keda" in printed


def _refusal(rig: Rig, home: ClusterRehearsal) -> str:
    """Ask for a run that must be rejected; returns the message on one line."""
    before = set(objects(rig, NAMESPACE, kinds=BUILT_IN))
    process = home.start_run(options=home.target_options)
    ended = home.finish(process)

    printed = home.output()
    assert ended == ExitCode.NOT_READY, printed
    assert set(objects(rig, NAMESPACE, kinds=BUILT_IN)) == before
    assert not (home.root / "runs").exists()
    assert not (home.root / "state" / "airflow").exists()
    assert home.processes() == []
    return " ".join(printed.split())


def _lease(spec: dict[str, object]) -> dict[str, object]:
    annotations = {RUN_ID_ANNOTATION: "theirs"}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": NAMESPACE, "annotations": annotations},
        "spec": spec,
    }


def _account_without(group: str, resource: str, verb: str) -> list[dict[str, object]]:
    """Return the committed runner under another name, with one verb of its Role taken out."""
    text = (PROJECT_ROOT / "k8s/base/runner/rbac.yaml").read_text()
    found = [item for item in yaml.safe_load_all(text) if "Cluster" not in item["kind"]]
    for item in found:
        item["metadata"]["name"] = HALF
        if item["kind"] == "RoleBinding":
            item["roleRef"]["name"] = item["subjects"][0]["name"] = HALF
        for rule in item.get("rules", []):
            if rule["apiGroups"] == [group] and resource in rule["resources"]:
                rule["verbs"].remove(verb)
    return found


def _manifest(folder: Path, *found: dict[str, object]) -> Path:
    path = folder / "applied.yaml"
    path.write_text(yaml.safe_dump_all(found))
    return path


def _kubeconfig(home: ClusterRehearsal, *, token: str = "", server: str = "") -> Path:
    """Return the runner's kubeconfig with another token or another address."""
    found = json.loads(home.kubeconfig.read_text())
    if token:
        found["users"][0]["user"]["token"] = token
    if server:
        found["clusters"][0]["cluster"]["server"] = server
    assert found["current-context"] == CONTEXT
    path = home.root / "other.kubeconfig"
    path.write_text(json.dumps(found))
    return path
