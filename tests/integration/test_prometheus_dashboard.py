"""The dashboard's queries in a real Prometheus that scrapes a real run of the bench."""

from __future__ import annotations

import copy
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.dashboard_file import (
    DashboardQuery,
    committed_dashboard,
    committed_rules,
    dashboard_queries,
)
from tests.eventually import WAIT_SECONDS, eventually
from tests.integration.localkube_process import running_localkube
from tests.integration.prometheus_process import (
    PrometheusProcess,
    adapted,
    debian_program,
    running_prometheus,
)

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin, TopicSpec
from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.kube.cluster_check import base_manifest, base_objects
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.manifests import (
    RunTarget,
    companion_for_run,
    consumer_for_run,
    lag_scaler_for_run,
    recorder_for_run,
)
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.cluster.run_jobs import producer_job_for_run
from lagbench.core.scenario.profiles import StepProfile
from lagbench.core.scenario.run_names import NAMESPACE, RunNames
from lagbench.core.scenario.scenario import Keys, Scenario
from lagbench.core.telemetry.records_of_programs import Phase
from lagbench.embedded.broker import Broker
from lagbench.project import PROJECT_ROOT
from localkube.processes import end_process, start_tied

pytestmark = pytest.mark.slow  # the run is started within it

CONFIGS = [PROJECT_ROOT / f"k8s/{name}/prometheus.yml" for name in ("base/monitoring", "compose")]
PARTITIONS = 4
SCRAPE_SECONDS = 2
APPS = {"consumer", "recorder", "lagbench-lag-scaler"}
# Grafana's for a scrape interval of 2 s: four of them.
VARIABLES = {"$namespace": NAMESPACE, "$run_group": "first", "$__rate_interval": "8s"}
# What a run that goes well leaves empty: nobody fails to answer, and a rebalance of two pods may
# be over between two readings of the group.
MAY_BE_EMPTY = {"Failed readings and scrapes B", "annotation Rebalances"}


@dataclass(frozen=True)
class DashboardRun:
    """A run that Prometheus watches."""

    names: RunNames
    kube: Kube
    prometheus: PrometheusProcess
    began_at: float

    def result(self, query: DashboardQuery) -> list[dict[str, Any]]:
        """Return the series that a query has had since the run began."""
        expr = query.expr.replace("$run_id", self.names.run_id)
        for name, value in VARIABLES.items():
            expr = expr.replace(name, value)
        answer = self.prometheus.ask(
            "query_range", query=expr, start=self.began_at, end=time.time(), step=1
        )
        assert answer["resultType"] == "matrix"
        return [
            found
            for found in answer["result"]
            if any(value != "NaN" for _, value in found["values"])
        ]

    def scraped(self, apps: set[str]) -> list[dict[str, str]] | None:
        """Return the labels of all whose last scrape was answered, if they are of these apps."""
        answer = self.prometheus.ask("query", query="up == 1")
        labels = [series["metric"] for series in answer["result"]]
        return labels if {found["app"] for found in labels} == apps else None

    def await_values(self, queries: Iterable[DashboardQuery]) -> None:
        """Wait until each of ``queries`` has had a value; pods that come meanwhile are scraped."""
        left = list(queries)
        gives_up_at = time.monotonic() + WAIT_SECONDS
        while True:
            self.prometheus.scrape(self.kube.list("Pod"))
            left = [query for query in left if not self.result(query)]
            if not left:
                return
            assert time.monotonic() < gives_up_at, f"no value yet: {[q.where for q in left]}"
            time.sleep(SCRAPE_SECONDS)


@pytest.fixture(scope="module")
def run(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardRun]:
    """Provide a small run in its spike: consumers, recorder, load, autoscaler, lag scaler."""
    debian_program("prometheus")
    folder = tmp_path_factory.mktemp("board")
    names = RunNames(f"board-{uuid.uuid4().hex[:8]}")
    target = RunTarget(names, broker.bootstrap_servers)
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        admin.create_topics(
            [
                TopicSpec(names.events_topic, PARTITIONS),
                TopicSpec(names.processed_topic, 1),
                TopicSpec(names.telemetry_topic, 1),
            ]
        )
    with running_localkube(folder / "localkube") as localkube, _autoscaler(localkube.kubeconfig):
        kube = Kube.from_kubeconfig(localkube.kubeconfig)
        with running_prometheus(CONFIGS[1], folder / "prometheus") as prometheus:
            began_at = time.time()
            _start(kube, target, localkube.kubeconfig)
            yield DashboardRun(names, kube, prometheus, began_at)
        kube.close()


def test_every_query_of_the_dashboard_runs_and_ours_have_values(run: DashboardRun) -> None:
    """Prometheus takes them all, each on our metrics shows something, and legends have labels."""
    queries = list(dashboard_queries())
    ours = [q for q in queries if not q.is_of_keda and q.where not in MAY_BE_EMPTY]

    run.await_values(ours)

    for query in queries:
        for series in run.result(query):
            assert query.legend_labels <= series["metric"].keys(), query
    assert len(ours) > len(queries) / 2


def test_the_dashboards_choices_are_the_run_and_its_namespace(run: DashboardRun) -> None:
    """The variables at the top find them by themselves."""
    run.await_values([DashboardQuery("group", "lagbench_group_members{}", "")])

    found = {}
    for variable in committed_dashboard()["templating"]["list"]:
        query = variable["query"]["query"]
        metric, _, label = query.removeprefix("label_values(").rpartition(", ")
        match = metric.replace("$namespace", NAMESPACE).replace("$run_id", run.names.run_id)
        found[variable["name"]] = run.prometheus.ask(
            f"label/{label.removesuffix(')')}/values", **{"match[]": match}
        )

    assert found == {
        "namespace": [NAMESPACE],
        "run_id": [run.names.run_id],
        "run_group": ["first"],
    }


def test_every_program_answers_prometheus(run: DashboardRun) -> None:
    """Consumers, recorder and lag scaler are scraped, each under its name, run and pod."""
    answering = [DashboardQuery(app, f'up{{app="{app}"}} == 1', "") for app in APPS]
    run.await_values(answering)

    labels = eventually(lambda: run.scraped(APPS), f"all of {APPS} up at the same time")

    assert {(found["run_id"], found["namespace"]) for found in labels} == {
        (run.names.run_id, NAMESPACE)
    }
    assert all(found["pod"].startswith(found["app"]) for found in labels)


def test_the_alert_rules_are_evaluated(run: DashboardRun) -> None:
    """The committed rules are loaded, and none of them joins series that do not match."""
    loaded = eventually(
        lambda: (
            (found := run.prometheus.rules())
            and "unknown" not in {r.health for r in found}
            and found
        ),
        "every rule evaluated once",
    )

    assert {rule.name for rule in loaded} == {rule.name for rule in committed_rules()}
    assert {rule.health for rule in loaded} == {"ok"}


OF_GROUP = 'consumergroup="enrich.$run_id", topic="lagbench.$run_id.events"'
EXISTING_QUERIES = {
    "lag of a group": f"sum by (consumergroup, topic) (kafka_consumergroup_lag{{{OF_GROUP}}}) > 0",
    "its sum": f"kafka_consumergroup_lag_sum{{{OF_GROUP}}}",
    "rate of work": f"sum(rate(kafka_consumergroup_current_offset{{{OF_GROUP}}}[20s])) > 0",
    "the HPA below its ceiling": (
        "kube_horizontalpodautoscaler_status_current_replicas"
        " < on (namespace, horizontalpodautoscaler) kube_horizontalpodautoscaler_spec_max_replicas"
    ),
    "the HPA wants more": (
        f'kube_horizontalpodautoscaler_status_desired_replicas{{namespace="{NAMESPACE}"}} > 1'
    ),
    "the HPA can scale": (
        'kube_horizontalpodautoscaler_status_condition{condition="AbleToScale", status="true"} == 1'
    ),
    "all replicas are there": (
        f'kube_deployment_spec_replicas{{namespace="{NAMESPACE}", deployment="consumer"}}'
        " == on (namespace, deployment) kube_deployment_status_replicas_available"
    ),
}
"""As dashboards and alerts ask kafka_exporter and kube-state-metrics."""


def test_existing_promql_has_values(run: DashboardRun) -> None:
    """Queries on the names and labels of the usual exporters work on the embedded bench."""
    queries = [DashboardQuery(what, expr, "") for what, expr in EXISTING_QUERIES.items()]

    run.await_values(queries)


@pytest.mark.parametrize("config_file", CONFIGS, ids=lambda path: path.parent.name)
def test_prometheus_takes_the_committed_configuration(config_file: Path, tmp_path: Path) -> None:
    """All of it but the Kubernetes discovery, which Debian's build leaves out."""
    adapted_file = tmp_path / "prometheus.yml"
    (tmp_path / "targets.json").write_text("[]")
    config = adapted(config_file, tmp_path / "targets.json")
    adapted_file.write_text(yaml.safe_dump(config), encoding="utf-8")

    checked = subprocess.run(
        [debian_program("promtool"), "check", "config", str(adapted_file)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr


@contextmanager
def _autoscaler(kubeconfig: Path) -> Iterator[None]:
    command = [sys.executable, "-m", "lagbench.programs.autoscaler", "--hpa-sync-seconds", "2"]
    with (kubeconfig.parent / "autoscaler.log").open("ab") as log:
        process = start_tied([*command, "--kubeconfig", str(kubeconfig)], log=log)
    try:
        yield
    finally:
        end_process(process.pid, grace_seconds=5)
        process.wait(timeout=60)


def _start(kube: Kube, target: RunTarget, kubeconfig: Path) -> None:
    """Start what a Dag run starts; the spike overwhelms one pod, so a second one is added."""
    scenario = _scenario()
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    recorder = base_manifest("recorder", "Deployment")
    kube.apply(recorder_for_run(recorder, target, kubeconfig=str(kubeconfig), is_embedded=True))
    consumer = base_manifest("consumer", "Deployment")
    kube.apply(consumer_for_run(consumer, target, scenario.consumer, replicas=1))
    for companion in base_objects("lag-scaler"):
        if companion["kind"] == "Service":
            kube.apply(companion_for_run(companion, target))
    kube.apply(lag_scaler_for_run(base_manifest("lag-scaler", "Deployment"), target))
    kube.apply(policy_for_run(_policy(), target))
    phase = Phase(at=time.time_ns(), source="dag", name="inject_spike", state="started")
    log = TelemetryLog(target.bootstrap_servers, target.names.telemetry_topic)
    log.send(phase)
    assert log.flush() == 0
    eventually(lambda: _ready_apps(kube) == APPS, "all Ready")
    kube.create(producer_job_for_run(base_manifest("producer", "Job"), target, scenario, tail=None))


def _ready_apps(kube: Kube) -> set[str]:
    return {
        pod["metadata"]["labels"]["app.kubernetes.io/name"]
        for pod in kube.list("Pod")
        for condition in (pod.get("status") or {}).get("conditions") or []
        if (condition["type"], condition["status"]) == ("Ready", "True")
    }


def _scenario() -> Scenario:
    return Scenario(
        name="board",
        description="A spike of 10 s on one slow pod",
        partitions=PARTITIONS,
        keys=Keys(entities=1000, zipf_s=1.1),
        profile=StepProfile(
            kind="step",
            rate_per_second=50,
            spike_mult=10,
            before_seconds=2,
            spike_hold_seconds=10,
            after_seconds=3,
        ),
        policy="persistent-lag",
        seed=11,
    )


def _policy() -> dict[str, Any]:
    """Return persistent-lag, sure of itself after 2 s."""
    text = (PROJECT_ROOT / "k8s/policies/persistent-lag.yaml").read_text(encoding="utf-8")
    policy: dict[str, Any] = copy.deepcopy(yaml.safe_load(text))
    policy["spec"].update(minReplicaCount=1, maxReplicaCount=2, pollingInterval=2)
    policy["spec"]["triggers"][0]["metadata"].update(
        lagThreshold="20", sustainSeconds="2", samplingInterval="1", windowSize="5"
    )
    return policy
