"""Every policy of the catalog on the real KEDA: taken, made into the HPA we expect, followed.

All at once, each in a namespace of its own: a sync of the HPA controller takes 15 s.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from lagbench.catalog.catalog import policy_file
from lagbench.catalog.catalog_files import list_policies
from lagbench.catalog.strict_yaml import parse_yaml, read_text
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.manifests import RunTarget
from lagbench.core.cluster.policy_manifest import policy_for_run
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.scalers import MetricSpec, trigger_metric_spec
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import Trigger
from lagbench.core.policy.policy import Policy
from lagbench.core.scenario.run_names import CONSUMER_DEPLOYMENT, POLICY_OBJECT, RunNames
from lagbench.embedded.broker import Broker
from tests.cluster.lagging_group import idle_consumers, let_lag
from tests.cluster.live_admission import LiveApi, Manifest
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually
from tests.integration.lag_scaler.scaler_process import Keda, ScalerProcess, running_scaler
from tests.integration.prometheus_process import running_prometheus

NAMES = RunNames("policies-in-force")
LAG = 1800
POLICIES = list_policies()
ON_CPU = frozenset({"cpu-only", "lag-cpu-safety-net"})
_LAG_PER_REPLICA = {"kafka": "lagThreshold", "prometheus": "threshold"}
_PRE_WARMED = 6  # of cron-prewarm-plus-lag, on working days
_TAKEN_UP_SECONDS = 240
_FOLLOWED_SECONDS = 300


@dataclass(frozen=True)
class InForce:
    """All policies, applied, each beside a Deployment that it drives."""

    api: LiveApi
    policies: dict[str, dict[str, Any]]
    scaler: ScalerProcess

    def hpa(self, name: str) -> Manifest:
        """Return the HPA that drives the Deployment; empty when there is none yet."""
        kind = self.policies[name]["kind"]
        of_keda = f"keda-hpa-{POLICY_OBJECT}"
        hpa = of_keda if kind == "ScaledObject" else POLICY_OBJECT
        return self.api.get("HorizontalPodAutoscaler", _namespace(name), hpa)

    def scaled_object(self, name: str) -> Manifest:
        """Return the policy as it is stored."""
        return self.api.get("ScaledObject", _namespace(name), POLICY_OBJECT)

    def is_ready(self, name: str) -> bool:
        """Return whether KEDA runs the policy."""
        conditions = (self.scaled_object(name).get("status") or {}).get("conditions") or []
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def replicas(self, name: str) -> int:
        """Return what the Deployment is asked to have."""
        deployment = self.api.get("Deployment", _namespace(name), CONSUMER_DEPLOYMENT)
        return int(deployment["spec"]["replicas"])


@pytest.fixture(scope="module")
def in_force(
    rig: Rig, rig_broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[InForce]:
    """Provide a group that lags, and all policies on it at once."""
    let_lag(rig_broker.bootstrap_servers, NAMES, LAG)
    api, policies = LiveApi(rig.kubeconfig), dict[str, dict[str, Any]]()
    with (
        running_scaler(tmp_path_factory.mktemp("scaler")) as scaler,
        lag_in_prometheus(tmp_path_factory.mktemp("prometheus")) as prometheus,
    ):
        for name in POLICIES:
            namespace = _namespace(name)
            policies[name] = _policy(name, rig_broker, namespace, scaler.address, prometheus)
            floor = Policy.read(policies[name], where=name).limits.floor_replicas
            api.create_namespace(namespace)
            for manifest in (
                idle_consumers(namespace, floor, has_node=name in ON_CPU),
                policies[name],
            ):
                answer = api.send(manifest, namespace)
                assert (answer.message, answer.warnings) == (None, ())
        yield InForce(api, policies, scaler)
        for name in POLICIES:
            api.delete_namespace(_namespace(name))


@contextmanager
def lag_in_prometheus(folder: Path) -> Iterator[str]:
    """Run a Prometheus that scrapes the group's lag from an exporter; gives its URL."""
    labels = f'consumergroup="{NAMES.group}", topic="{NAMES.events_topic}", partition="0"'

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"kafka_consumergroup_lag{{{labels}}} {LAG}\n".encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Stay silent."""

    exporter = ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=exporter.serve_forever, daemon=True).start()
    target = f"127.0.0.1:{exporter.server_address[1]}"
    job = {"job_name": "lag", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    config = folder / "scrape.yml"
    config.write_text(yaml.safe_dump({"rule_files": [], "scrape_configs": [job]}))
    try:
        with running_prometheus(config, folder / "server") as prometheus:
            yield f"http://127.0.0.1:{prometheus.port}"
    finally:
        exporter.shutdown()
        exporter.server_close()


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "cpu-only"])
def test_keda_makes_the_hpa_that_we_would_make(in_force: InForce, name: str) -> None:
    """Bounds, behavior, metrics, labels and annotations are equal, with the same defaults."""
    eventually(
        lambda: in_force.is_ready(name), f"{name} is Ready", within_seconds=_TAKEN_UP_SECONDS
    )
    live = eventually(
        lambda: in_force.hpa(name), f"the HPA of {name}", within_seconds=_TAKEN_UP_SECONDS
    )

    ours = _ours(in_force.scaled_object(name), in_force.scaler)

    # The live name is taken; and KEDA's version is "main" in a binary that was not told one.
    ours["metadata"]["name"] = "built-here"
    for label in ("app.kubernetes.io/name", "app.kubernetes.io/version"):
        ours["metadata"]["labels"][label] = live["metadata"]["labels"][label]
    answer = in_force.api.send(ours, _namespace(name), is_dry_run=True)
    assert answer.message is None
    assert answer.body["spec"] == live["spec"]
    for part in ("labels", "annotations"):
        assert answer.body["metadata"][part] == live["metadata"][part]


@pytest.mark.parametrize("name", POLICIES)
def test_the_real_hpa_follows_the_policy(in_force: InForce, name: str) -> None:
    """It reads every metric, and holds as many replicas as the lag asks for."""
    wanted = _wanted(in_force.policies[name])

    def is_followed() -> bool:
        status = in_force.hpa(name).get("status") or {}
        conditions = {c["type"]: c["reason"] for c in status.get("conditions") or []}
        is_read = conditions.get("ScalingActive") == "ValidMetricFound"
        return is_read and _reads_all(in_force.hpa(name)) and in_force.replicas(name) in wanted

    eventually(is_followed, f"{name} to have {wanted}", within_seconds=_FOLLOWED_SECONDS)

    assert in_force.hpa(name)["status"]["desiredReplicas"] in wanted


def _ours(stored: Manifest, scaler: ScalerProcess) -> dict[str, Any]:
    spec = parse_scaled_object(stored, where="stored")
    written = stored["spec"]["triggers"]
    metrics = [
        trigger_metric_spec(trigger)
        or _reported(trigger, written[trigger.index]["metadata"], scaler)
        for trigger in spec.triggers
    ]
    return build_hpa(spec, stored["metadata"], metrics)


def _reported(trigger: Trigger, metadata: dict[str, str], scaler: ScalerProcess) -> MetricSpec:
    """Return the metric that the scaler offers for an external trigger."""
    with grpc.insecure_channel(scaler.address) as channel:
        reported = Keda(channel, POLICY_OBJECT, metadata).spec()
    return MetricSpec(
        name=f"s{trigger.index}-{reported.metricName}",
        kind="External",
        target_type=trigger.metric_type,
        target_milli=int(reported.targetSizeFloat * 1000),
    )


def _wanted(policy: dict[str, Any]) -> set[int]:
    """Return the replicas that the lag asks for; two answers where the day of the week decides."""
    limits = Policy.read(policy, where="policy").limits
    floor = max(limits.floor_replicas, 1)
    wishes = {floor}
    for trigger in policy["spec"].get("triggers", []):
        if trigger["type"] in _LAG_PER_REPLICA:
            threshold = int(trigger["metadata"][_LAG_PER_REPLICA[trigger["type"]]])
            wishes = {max(floor, math.ceil(LAG / threshold))}
        elif trigger["type"] == "cron":
            wishes = {*wishes, _PRE_WARMED}
    return {min(wish, limits.ceiling_replicas) for wish in wishes}


def _reads_all(hpa: Manifest) -> bool:
    """Return whether each metric has a value: one that could not be read leaves an empty entry."""
    read = [_metric_name(metric) for metric in hpa["status"].get("currentMetrics") or []]
    return read == [_metric_name(metric) for metric in hpa["spec"]["metrics"]]


def _metric_name(metric: dict[str, Any]) -> str:
    external, resource = metric.get("external"), metric.get("resource")
    return str(external["metric"]["name"] if external else (resource or {}).get("name"))


def _namespace(name: str) -> str:
    return f"in-force-{name}"


def _policy(
    name: str, broker: Broker, namespace: str, scaler_address: str, prometheus: str
) -> dict[str, Any]:
    """Return a policy of the catalog; the cluster here has no names for services."""
    path = policy_file(name)
    target = RunTarget(NAMES, broker.bootstrap_servers, ClusterSettings(namespace))
    policy = policy_for_run(parse_yaml(read_text(path), where=name), target)
    addresses = {"scalerAddress": scaler_address, "serverAddress": prometheus}
    for trigger in policy["spec"].get("triggers", []):
        named = addresses.keys() & trigger["metadata"].keys()
        trigger["metadata"].update({key: addresses[key] for key in named})
    return policy
