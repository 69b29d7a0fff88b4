"""A home whose runs go to the rig, for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import ClusterRehearsal, rehearsal_on
from tests.cluster.rig.rig import Rig


@pytest.fixture(scope="module")
def home(
    rig: Rig, rig_broker: Broker, program_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterRehearsal]:
    """Provide a home on the rig, which has the programs' image."""
    with rehearsal_on(rig, rig_broker, tmp_path_factory.mktemp("home")) as home:
        yield home
