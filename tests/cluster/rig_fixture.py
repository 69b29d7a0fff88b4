"""Share one real Kubernetes between the tests of a session; it ends with the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagbench.embedded.broker import Broker
from tests.cluster.rig.network import NODE_ADDRESS, is_inside

if TYPE_CHECKING:
    from tests.cluster.rig.rig import Rig


@pytest.fixture(scope="session")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """Provide a real Kubernetes with the real KEDA."""
    if not is_inside():
        pytest.skip("needs the rig's namespaces: make test-kubernetes")
    from tests.cluster.rig.binaries import build_all
    from tests.cluster.rig.program_image import PYTHON, python_image
    from tests.cluster.rig.rig import Rig

    running = Rig.up(tmp_path_factory.mktemp("rig"), build_all(print))
    running.import_image(python_image())
    os.environ["LAGBENCH_TEST_IMAGE"] = PYTHON
    yield running
    running.down()


@pytest.fixture(scope="session")
def program_image(rig: Rig) -> str:
    """Provide the name of the programs' image, which the rig's node has."""
    return rig.import_programs()


@pytest.fixture(scope="session")
def spark_image(rig: Rig) -> str:
    """Provide the name of Spark's image, which the rig's node has."""
    return rig.import_spark()


@pytest.fixture(scope="session")
def rig_broker(rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Provide a broker for pods, KEDA and the test; leave it running (``broker_for_pods``)."""
    with broker_for_pods(tmp_path_factory.mktemp("rig-broker")) as broker:
        yield broker


@contextmanager
def broker_for_pods(folder: Path) -> Iterator[Broker]:
    """Run a broker at the node's address for the time of the block."""
    broker = Broker(folder, host=NODE_ADDRESS)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()
