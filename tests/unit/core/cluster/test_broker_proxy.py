"""The broker proxy of a run, and the consumers behind it."""

from __future__ import annotations

from tests.unit.core.cluster.consumer_pod import options_of, read_by

from lagbench.adapters.kube.manifest_files import base_manifest
from lagbench.core.cluster.jobs import broker_proxy_for_run
from lagbench.core.cluster.manifests import (
    ConsumersWay,
    RunTarget,
    consumer_for_run,
)
from lagbench.core.scenario.run_names import (
    BROKER_PROXY,
    RUN_ID_LABEL,
    RunNames,
)
from lagbench.core.scenario.scenario import ConsumerSettings
from lagbench.programs.tcp_proxy.settings import parse_settings

PROXIED_RUN = RunNames("quick-spike-1")
PROXIED = RunTarget(PROXIED_RUN, "127.0.0.1:19092")


def test_consumers_behind_the_proxy_report_over_the_direct_way() -> None:
    """Work goes to the proxy's address, telemetry to Kafka's; without a way both are Kafka's."""
    deployment = base_manifest("consumer", "Deployment")
    way = ConsumersWay("127.0.0.1:9095", "127.0.0.1:9092")

    behind = consumer_for_run(deployment, PROXIED, ConsumerSettings(), replicas=2, way=way)
    direct = consumer_for_run(deployment, PROXIED, ConsumerSettings(), replicas=2)

    found = options_of(behind)
    assert (found.bootstrap_servers, found.telemetry_servers) == (
        "127.0.0.1:9095",
        "127.0.0.1:9092",
    )
    found = options_of(direct)
    assert (found.bootstrap_servers, found.telemetry_servers) == ("127.0.0.1:19092", "")


def test_the_proxy_stands_between_the_brokers_two_ports() -> None:
    """Its own parser reads them; the committed ports are replaced, and it ends with the run."""
    proxy = broker_proxy_for_run(
        base_manifest("broker-proxy", "Deployment"), PROXIED, listen_port=9095, upstream_port=9094
    )

    settings = read_by(parse_settings, proxy)
    assert (settings.listen_port, settings.upstream_port) == (9095, 9094)
    assert proxy["metadata"]["name"] == BROKER_PROXY
    assert proxy["metadata"]["labels"][RUN_ID_LABEL] == PROXIED_RUN.run_id
    assert proxy["spec"]["template"]["metadata"]["labels"][RUN_ID_LABEL] == PROXIED_RUN.run_id
