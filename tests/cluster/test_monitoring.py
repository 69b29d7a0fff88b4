"""What the real KEDA tells Prometheus, as the dashboard asks for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.project import PROJECT_ROOT
from tests.cluster.lagging_group import idle_consumers, scaled_object
from tests.cluster.rig.rig import Rig
from tests.dashboard_file import dashboard_queries
from tests.eventually import eventually
from tests.integration.prometheus_process import running_prometheus

NAMESPACE, NAME = "watched", "watched"
CONFIG = PROJECT_ROOT / "k8s/base/monitoring/prometheus.yml"
# KEDA's programs are processes beside the cluster, and there is no cluster DNS.
ADDRESSES = {
    "keda-operator.keda.svc:8080": "127.0.0.1:8080",
    "keda-metrics-apiserver.keda.svc:8080": "127.0.0.1:8082",
}
ALL_DAY = {
    "type": "cron",
    "metadata": {
        "timezone": "Etc/UTC",
        "start": "0 0 * * *",
        "end": "59 23 * * *",
        "desiredReplicas": "1",
    },
}
# Nobody listens there.
AWAY = {
    "type": "metrics-api",
    "metadata": {"url": "http://127.0.0.1:9/", "valueLocation": "value", "targetValue": "1"},
}


def test_the_dashboards_queries_on_keda_have_values(rig: Rig, tmp_path: Path) -> None:
    """Operator and adapter are scraped; each query finds the ScaledObject, and its legend."""
    kube = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=NAMESPACE)
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    kube.apply(idle_consumers(NAMESPACE, 1, name=NAME))
    kube.apply(scaled_object(NAMESPACE, NAME, ALL_DAY, AWAY, maxReplicaCount=2))
    queries = [query for query in dashboard_queries() if query.is_of_keda]

    with running_prometheus(CONFIG, tmp_path / "prometheus", ADDRESSES) as prometheus:

        def values(expr: str) -> list[dict[str, Any]]:
            found = expr.replace("$namespace", NAMESPACE)
            return list(prometheus.ask("query", query=found, time=time.time())["result"])

        for query in queries:
            eventually(lambda query=query: values(query.expr), query.where)
            for series in values(query.expr):
                assert query.legend_labels <= series["metric"].keys(), query
        apps = {"keda-operator", "keda-metrics-apiserver"}
        eventually(
            lambda: {series["metric"]["app"] for series in values("up == 1")} == apps,
            f"{apps} up at the same time",
        )
        firing = eventually(
            lambda: {rule.name for rule in prometheus.rules() if rule.is_firing},
            "an alert on the trigger whose source is away",
        )

    kube.delete("ScaledObject", NAME)
    kube.delete("Deployment", NAME)
    kube.close()
    assert len(queries) == 5
    assert firing == {"ScalerErrors"}
