"""The API servers that are held to the contract: localkube, and a real one.

The real one is the rig of tests/cluster (make test-kubernetes), or whatever cluster
LAGBENCH_TEST_KUBECONFIG names.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.kube_endpoint import Endpoint
from tests.integration.localkube_process import LocalkubeProcess, client_of


@pytest.fixture(
    scope="session", params=["localkube", pytest.param("cluster", marks=pytest.mark.cluster)]
)
def server(request: pytest.FixtureRequest) -> Path:
    """Provide the kubeconfig of a running API server."""
    if request.param == "localkube":
        localkube: LocalkubeProcess = request.getfixturevalue("localkube")
        return localkube.kubeconfig
    given = os.environ.get("LAGBENCH_TEST_KUBECONFIG")
    return Path(given or request.getfixturevalue("rig").kubeconfig)


@pytest.fixture
def endpoint(server: Path) -> Iterator[Endpoint]:
    """Provide a client and a namespace that is deleted afterwards."""
    client = client_of(server)
    namespaces = client.resources.get(api_version="v1", kind="Namespace")
    name = f"contract-{secrets.token_hex(3)}"
    namespaces.create(body={"metadata": {"name": name}})
    yield Endpoint(client, name, os.environ.get("LAGBENCH_TEST_IMAGE", "python:3.11-slim"))
    namespaces.delete(name=name)
