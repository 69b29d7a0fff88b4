"""The rig that the tests of a real Kubernetes share: up once, gone with the session."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.cluster.rig.network import is_inside

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
