"""Fixtures of all tests, and the tiers of those that need a machine of their own."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.cluster.rig_fixture import program_image, rig, rig_broker, spark_image  # noqa: F401
from tests.integration.localkube_process import LocalkubeProcess, running_localkube

TESTS = Path(__file__).parent

# py4j logs the end of its connections at interpreter exit, when pytest has closed the streams.
logging.getLogger("py4j").setLevel(logging.ERROR)

# A shell starts background jobs with SIGINT ignored, and children inherit that: then no Ctrl-C of
# these tests would reach the command. A handler of our own is reset to the default in each child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does: no timings in tests.
settings.register_profile("without timings", deadline=None)
settings.load_profile("without timings")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of tests/cluster and tests/compose: a new file there is in no other tier.

    What starts nothing is never slow: only the folders with real processes are asked for the rest.
    """
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in ("cluster", "compose"):
            item.add_marker(folder)
        if folder in ("unit", "conformance") and item.get_closest_marker("slow"):
            raise pytest.UsageError(f"{item.nodeid}: a slow test belongs into tests/integration")


@pytest.fixture(scope="session")
def localkube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalkubeProcess]:
    """Provide one running localkube for the whole session; a test takes names of its own."""
    with running_localkube(tmp_path_factory.mktemp("localkube")) as running:
        yield running
