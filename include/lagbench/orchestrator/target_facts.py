"""Read the facts of a target's cluster that matter for the policies of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lagbench.adapters.kube.client.api_discovery import ApiDiscovery
from lagbench.adapters.kube.cluster_facts import read_cluster_facts
from lagbench.adapters.kube.kube import Kube
from lagbench.core.policy.review import ClusterFacts
from lagbench.embedded import bench
from lagbench.errors import NotReady
from lagbench.orchestrator.target import find_target


def target_facts(name: str, settings_file: Path | None, documents: Sequence[Any]) -> ClusterFacts:
    """Return the facts in a target's namespace that matter for the file's policies; read only.

    The embedded bench serves few kinds, so a missing kind there says nothing about a cluster.

    :raises WrongInput: the target's name or its settings are not valid.
    :raises NotReady: the target does not exist, does not answer, or the account lacks a right.
    """
    cluster = find_target(name, settings_file)
    opened = _open_embedded() if cluster is None else cluster.open_kube()
    with opened as kube:
        return read_cluster_facts(
            kube,
            ApiDiscovery(kube.api_client),
            documents,
            source=name,
            knows_kinds=cluster is not None,
        )


def _open_embedded() -> contextlib.closing[Kube]:
    state = bench.running(bench.state_dir())
    if state is None:
        raise NotReady("the embedded bench is not up: lagbench up, or check without --target")
    return contextlib.closing(Kube.from_kubeconfig(state.kubeconfig))
