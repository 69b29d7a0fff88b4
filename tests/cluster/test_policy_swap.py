"""The operator swaps policies on the real KEDA while consumers run, and leaves a record."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagbench.adapters.kube.kube import Kube
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import policy_file
from lagbench.catalog.strict_yaml import parse_yaml, read_text
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.keda.loop.keda_hpa import VERSION_LABEL
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, POLICY_OBJECT, RunNames
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from tests.cluster.lagging_group import idle_consumers, let_lag
from tests.cluster.live_admission import LiveApi
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

NAMESPACE = "policy-swap"
SCENARIO = PROJECT_ROOT / "tests/data/scenarios/tiny_spike.yaml"
LAG, WANTED = 2000, 4
FIRST, SECOND, THIRD = (RunNames(f"policy-swap-{number}") for number in (1, 2, 3))
SECOND_METRIC = f"s0-kafka-{SECOND.events_topic.replace('.', '-')}"


@dataclass(frozen=True)
class Swapping:
    """A cluster with consumers that lag, and runs that bring their policies."""

    kube: Kube
    servers: str
    runs: Path

    def bring(self, names: RunNames, policy: dict[str, Any]) -> tuple[RunFolder, dict[str, Any]]:
        """Let the operator put a run's policy into force; returns the folder and the policy."""
        from lagbench_airflow.operators.apply_scaling_policy import ApplyScalingPolicyOperator
        from lagbench_airflow.task_life import CellRun

        folder = RunFolder.create(names.run_id, self.runs)
        folder.write_text(folder.scenario, SCENARIO.read_text())
        folder.write_text(folder.policy, yaml.safe_dump(policy))
        folder.write_json(folder.manifest, {})
        operator = ApplyScalingPolicyOperator(task_id="apply", run_folder=str(folder.path))
        operator.act(CellRun.open(str(folder.path)), {})
        return folder, policy_for_run(policy, RunTarget(names, self.servers))

    def stored(self) -> dict[str, Any]:
        """Return the ScaledObject."""
        return self.kube.get("ScaledObject", POLICY_OBJECT) or {}

    def replicas(self) -> int:
        """Return what the consumers' Deployment is asked to have."""
        return int((self.kube.get("Deployment", CONSUMER_DEPLOYMENT) or {})["spec"]["replicas"])

    def pods(self) -> set[str]:
        """Return the consumers' pods."""
        found = self.kube.list("Pod", label_selector=f"app={CONSUMER_DEPLOYMENT}")
        return {str(pod["metadata"]["uid"]) for pod in found}


@pytest.fixture
def swapping(
    rig: Rig, rig_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Swapping]:
    """Provide two consumers, three runs that lag alike, and Airflow's connections."""
    servers = rig_broker.bootstrap_servers
    for names in (FIRST, SECOND, THIRD):
        let_lag(servers, names, LAG)
    extra = {"kube_config_path": str(rig.kubeconfig), "namespace": NAMESPACE}
    for name, kind, settings in (
        ("KUBERNETES", "kubernetes", extra),
        ("KAFKA", "kafka", {"bootstrap.servers": servers}),
    ):
        connection = json.dumps({"conn_type": kind, "extra": settings})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}_DEFAULT", connection)
    api = LiveApi(rig.kubeconfig)
    api.create_namespace(NAMESPACE)
    kube = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)
    kube.apply(idle_consumers(NAMESPACE, 2))
    yield Swapping(kube, servers, tmp_path)
    for kind in ("ScaledObject", "HorizontalPodAutoscaler"):
        kube.delete(kind, POLICY_OBJECT)
    kube.close()
    api.delete_namespace(NAMESPACE)


def test_policies_are_swapped_in_place(swapping: Swapping) -> None:
    """Nothing of the old policy stays, no consumer is touched, and the run folder shows it."""
    quick, default, on_cpu = (_policy(name) for name in ("lag-quick", "lag-default", "cpu-only"))
    swapping.bring(FIRST, _with_everything(quick))
    eventually(lambda: swapping.replicas() == WANTED, "one pod per threshold")
    eventually(lambda: len(swapping.pods()) == WANTED, "as many pods")
    pods = swapping.pods()
    uid = swapping.stored()["metadata"]["uid"]

    folder, wanted = swapping.bring(SECOND, default)

    stored = swapping.stored()
    assert stored["metadata"]["uid"] == uid
    assert _said(stored["spec"]) == wanted["spec"]
    assert stored["metadata"]["annotations"] == wanted["metadata"]["annotations"]
    assert "team" not in stored["metadata"]["labels"]
    hpa = json.loads((folder.path / "hpa.json").read_text())
    live = swapping.kube.get("HorizontalPodAutoscaler", f"keda-hpa-{POLICY_OBJECT}") or {}
    version = live["metadata"]["labels"][VERSION_LABEL]
    assert json.loads(folder.manifest.read_text())["versions"]["keda"] == version
    assert "behavior" not in hpa["spec"]
    assert hpa["spec"]["metrics"][0]["external"]["metric"]["name"] == SECOND_METRIC
    conditions = {item["type"]: item["status"] for item in hpa["conditions"]}
    assert conditions["ScalingActive"] == conditions["AbleToScale"] == "True"
    diff = (folder.path / "policy.diff").read_text()
    for gone in (
        "-  fallback:",
        "-  pollingInterval: 5",
        "-    name: lag",
        f"{FIRST.events_topic}",
    ):
        assert gone in diff
    _stays(swapping, pods)

    folder, _ = swapping.bring(THIRD, on_cpu)

    assert swapping.stored() == {}
    assert swapping.kube.get("HorizontalPodAutoscaler", f"keda-hpa-{POLICY_OBJECT}") is None
    assert swapping.replicas() == WANTED
    assert json.loads((folder.path / "hpa.json").read_text())["conditions"]
    assert "-kind: ScaledObject" in (folder.path / "policy.diff").read_text()

    _, wanted = swapping.bring(FIRST, default)

    assert _said(swapping.stored()["spec"]) == wanted["spec"]
    assert swapping.kube.get("HorizontalPodAutoscaler", POLICY_OBJECT) is None
    assert swapping.pods() == pods


def _said(value: Any) -> Any:
    """Return a spec without what says nothing: KEDA writes an empty scalingModifiers into each."""
    if not isinstance(value, dict):
        return value
    kept = {key: _said(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item != {}}


def _stays(swapping: Swapping, pods: set[str]) -> None:
    """Watch that a whole sync of the HPA under the new policy changes nothing."""
    name = f"keda-hpa-{POLICY_OBJECT}"

    def last_metric() -> Any:
        hpa = swapping.kube.get("HorizontalPodAutoscaler", name) or {}
        metrics = hpa["status"].get("currentMetrics") or [{}]
        return (metrics[0].get("external") or {}).get("metric", {}).get("name", "")

    eventually(
        lambda: last_metric() == SECOND_METRIC,
        "a sync of the HPA under the new policy",
    )
    assert swapping.replicas() == WANTED
    assert swapping.pods() == pods


def _with_everything(policy: dict[str, Any]) -> dict[str, Any]:
    """Return the policy with all that another one might not have."""
    full = copy.deepcopy(policy)
    full["metadata"].update(labels={"team": "orders"}, annotations={"lagbench.io/note": "old"})
    full["spec"].update(
        pollingInterval=5,
        initialCooldownPeriod=1,
        fallback={"failureThreshold": 3, "replicas": 4, "behavior": "currentReplicas"},
    )
    full["spec"]["triggers"][0].update(name="lag", useCachedMetrics=True)
    full["spec"]["advanced"]["restoreToOriginalReplicaCount"] = False
    return full


def _policy(name: str) -> dict[str, Any]:
    found: dict[str, Any] = parse_yaml(read_text(policy_file(name)), where=name)
    return found
