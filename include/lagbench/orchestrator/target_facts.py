"""What a target's cluster holds beside the policies of a file."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lagbench.adapters.kube.api_discovery import ApiDiscovery
from lagbench.adapters.kube.cluster_facts import read_cluster_facts
from lagbench.adapters.kube.kube import Kube
from lagbench.core.policy.review import ClusterFacts
from lagbench.embedded import bench
from lagbench.errors import NotReady
from lagbench.orchestrator.target import find_target


def target_facts(name: str, settings_file: Path | None, documents: Sequence[Any]) -> ClusterFacts:
    """Return what bears on the file's policies in the namespace of a target; only reads.

    The embedded bench serves few kinds, so what it lacks of them says nothing of a cluster.

    :raises WrongInput: the target's name or its settings cannot be.
    :raises NotReady: the target is not there, does not answer, or the account lacks a right.
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
