"""The parts of a consumer on Spark, as they are started on a cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.fakes.fake_kube import FakeKube
from tests.unit.plugins.conftest import SCENARIO

from lagbench.catalog.catalog import checked_cell
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.scenario.run_names import RUN_ID_LABEL, RunNames
from lagbench.core.scenario.scenario import Scenario
from lagbench.embedded.broker import ProxiedListener
from lagbench.errors import NotReady
from lagbench_airflow.operators import run_consumers
from lagbench_airflow.operators.cell_operator import Place
from lagbench_airflow.operators.run_consumers import start_spark

CELL: Any = SimpleNamespace(
    scenario=checked_cell("spark_consumer").scenario, policy=checked_cell("spark_consumer").policy
)

CLAIM = "PersistentVolumeClaim/lagbench-spark-checkpoint"


class ClusterKube(FakeKube):
    """Gives every Service an address and an identity, as an API server does."""

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return a copy."""
        found = super().get(kind, name)
        if found is not None and kind == "Service":
            found["spec"]["clusterIP"] = "10.96.0.7"
            found["metadata"]["uid"] = f"uid-of-{name}"
        return found


def start(settings: ClusterSettings, kube: ClusterKube | None = None) -> ClusterKube:
    """Start all parts; return what the cluster has then."""
    kube = kube or ClusterKube()
    target = RunTarget(RunNames("a-run"), "kafka:9092", settings)
    start_spark(CELL, Place(kube, target, None))  # type: ignore[arg-type]
    return kube


@pytest.mark.parametrize(("storage_class", "claims"), [(None, [CLAIM]), ("none", [])])
def test_the_parts_come_in_order(storage_class: str | None, claims: list[str]) -> None:
    """The Service and what pods mount first; then master, workers, driver."""
    kube = start(ClusterSettings(storage_class=storage_class))

    assert [call.split(" ", 1)[1] for call in kube.calls] == [
        "Service/spark-stream-master",
        "PodDisruptionBudget/consumer",
        *claims,
        "Secret/spark-stream-a-run",
        "Deployment/spark-stream-master",
        "Deployment/consumer",
        "Deployment/spark-stream-driver",
    ]


def test_only_the_claim_outlives_the_run() -> None:
    """Everything else has the run's label, by which it is removed."""
    kube = start(ClusterSettings())

    kept = [
        f"{kind}/{name}"
        for (kind, name), found in kube.objects.items()
        if RUN_ID_LABEL not in (found["metadata"].get("labels") or {})
    ]
    assert kept == [CLAIM]


def test_the_pods_share_a_secret_of_the_run() -> None:
    """All three read it; a retry keeps it; it ends with the Service; each run draws another."""
    kube = start(ClusterSettings())
    secret = kube.objects["Secret", "spark-stream-a-run"]
    start(ClusterSettings(), kube)
    other = start(ClusterSettings()).objects["Secret", "spark-stream-a-run"]

    assert kube.objects["Secret", "spark-stream-a-run"] == secret
    assert len(secret["stringData"]["secret"]) >= 64
    assert other["stringData"] != secret["stringData"]
    (owner,) = secret["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("Service", "uid-of-spark-stream-master")
    for name in ("spark-stream-master", "consumer", "spark-stream-driver"):
        container = kube.objects["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
        (variable,) = (e for e in container["env"] if e["name"] == "_SPARK_AUTH_SECRET")
        reference = {"name": secret["metadata"]["name"], "key": "secret"}
        assert variable == {
            "name": "_SPARK_AUTH_SECRET",
            "valueFrom": {"secretKeyRef": reference},
        }


def test_a_claim_that_exists_stays_as_it_is() -> None:
    """Its class cannot change: a run with another one would be rejected by the API server."""
    kube = start(ClusterSettings(storage_class="slow"))

    start(ClusterSettings(storage_class="fast"), kube)

    claim = kube.objects["PersistentVolumeClaim", "lagbench-spark-checkpoint"]
    assert claim["spec"]["storageClassName"] == "slow"


def test_workers_and_driver_get_the_address_of_the_service() -> None:
    """Not its name: a cluster without DNS for pods runs it, too."""
    kube = start(ClusterSettings())

    for name in ("consumer", "spark-stream-driver"):
        container = kube.objects["Deployment", name]["spec"]["template"]["spec"]["containers"][0]
        variables = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert variables["SPARK_STREAM_MASTER_URL"] == "spark://10.96.0.7:7077"


CUT = {"kind": "broker_unreachable", "at_seconds": 1, "for_seconds": 1}

RESTART = {"kind": "broker_restart", "at_seconds": 1, "for_seconds": 1}

LISTENER = ProxiedListener(port=9094, advertised_port=9095)


def scenario(*actions: dict[str, Any]) -> Scenario:
    """Return the scenario of the operators' tests with these actions."""
    return Scenario.model_validate(SCENARIO | {"actions": list(actions)})


@pytest.mark.parametrize(("actions", "found"), [((), None), ((RESTART,), None), ((CUT,), LISTENER)])
def test_only_consumers_whose_way_is_disturbed_take_the_other_listener(
    actions: tuple[dict[str, Any], ...],
    found: ProxiedListener | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A run without such an action is not even slowed by an idle proxy."""
    state = SimpleNamespace(proxied=LISTENER)
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    assert run_consumers.listener_behind_proxy(scenario(*actions)) == found


@pytest.mark.parametrize("state", [None, SimpleNamespace(proxied=None)])
def test_a_bench_without_the_listener_says_what_to_do(
    state: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bench that an earlier version started has none."""
    monkeypatch.setattr(run_consumers.bench, "running", lambda _folder: state)

    with pytest.raises(NotReady, match="lagbench down"):
        run_consumers.listener_behind_proxy(scenario(CUT))
