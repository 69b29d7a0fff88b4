"""Build the broker proxy of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lagbench.core.cluster.group_manifests import Manifest
from lagbench.core.cluster.manifests import RunTarget, deployment_for_run


def broker_proxy_for_run(
    deployment: Mapping[str, Any], target: RunTarget, *, listen_port: int, upstream_port: int
) -> Manifest:
    """Return the proxy's Deployment between the two ports of the broker's second listener."""
    return deployment_for_run(
        deployment,
        target,
        arguments={"listen-port": str(listen_port), "upstream-port": str(upstream_port)},
    )
