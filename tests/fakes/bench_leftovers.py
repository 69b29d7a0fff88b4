"""List what runs have left on a bench that is up."""

from __future__ import annotations

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.kube import Kube
from lagbench.core.scenario.run_names import GROUP_PREFIX, RUN_ID_LABEL
from lagbench.embedded.bench_state import BenchState


def leftovers(bench: BenchState) -> list[str]:
    """Return the workloads, policies, topics and groups of runs that are there."""
    kube = Kube.from_kubeconfig(bench.kubeconfig)
    names = [
        f"{kind}/{found['metadata']['name']}"
        for kind in ("Pod", "Deployment", "Job")
        for found in kube.list(kind, label_selector=RUN_ID_LABEL)
    ]
    names += [f"policy {f['metadata']['name']}" for f in kube.list("ScaledObject")]
    kube.close()
    with KafkaAdmin(bench.bootstrap_servers) as admin:
        return names + admin.topic_names() + admin.group_ids(GROUP_PREFIX)
