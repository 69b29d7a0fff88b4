"""Share one real broker between the integration tests of a session; it ends by its process id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.landed_run import landed

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.embedded.broker import Broker

__all__ = ["landed"]  # a fixture of the Spark tests


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Provide a running Kafka broker; leave it running (stop ``own_broker`` instead)."""
    running = Broker(tmp_path_factory.mktemp("broker"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def kafka_admin(broker: Broker) -> Iterator[KafkaAdmin]:
    """Provide administration of the session's broker."""
    with KafkaAdmin(broker.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Broker]:
    """Provide a broker that is not started yet, for tests that stop or kill it."""
    own = Broker(tmp_path / "broker")
    yield own
    own.stop()
