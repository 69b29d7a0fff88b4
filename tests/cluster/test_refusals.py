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

from lagbench.core.scenario.run_names import (
    CONSUMER_DEPLOYMENT,
    NAMESPACE,
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


def test_a_missing_right_is_named(rig: Rig, home: ClusterRehearsal) -> None:
    """An account that lacks one verb of the runner's Role: exit 3 with verb and resource."""
    path = _manifest(home.root, *_account_without("keda.sh", "scaledobjects", "patch"))
    kubectl(rig, "apply", "-f", str(path))
    token = kubectl(rig, "-n", NAMESPACE, "create", "token", HALF).strip()

    printed = _refusal(rig, replace(home, kubeconfig=_kubeconfig(home, token=token)))

    kubectl(rig, "delete", "-f", str(path))
    assert "that a run needs: patch on scaledobjects.keda.sh. " in printed
    assert "k8s/base/runner/rbac.yaml" in printed


def test_an_unreachable_api_server_is_reported(rig: Rig, home: ClusterRehearsal) -> None:
    """Nobody listens where the context says: exit 3 with the address."""
    away = "https://127.0.0.1:1"

    printed = _refusal(rig, replace(home, kubeconfig=_kubeconfig(home, server=away)))

    assert f"{away} does not answer" in printed


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
