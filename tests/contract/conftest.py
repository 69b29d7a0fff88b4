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
from tests.integration.localkube_process import client_of, running_localkube


@pytest.fixture(scope="module", params=["localkube", "cluster"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Provide the kubeconfig of a running API server."""
    if request.param == "cluster":
        given = os.environ.get("LAGBENCH_TEST_KUBECONFIG")
        if given:
            yield Path(given)
        else:
            yield request.getfixturevalue("rig").kubeconfig
        return
    with running_localkube(tmp_path_factory.mktemp("localkube")) as localkube:
        yield localkube.kubeconfig


@pytest.fixture
def endpoint(server: Path) -> Iterator[Endpoint]:
    """Provide a client and a namespace that is deleted afterwards."""
    client = client_of(server)
    namespaces = client.resources.get(api_version="v1", kind="Namespace")
    name = f"contract-{secrets.token_hex(3)}"
    namespaces.create(body={"metadata": {"name": name}})
    yield Endpoint(client, name, os.environ.get("LAGBENCH_TEST_IMAGE", "python:3.11-slim"))
    namespaces.delete(name=name)
