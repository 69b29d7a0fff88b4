"""Share one real broker between the integration tests of a session; it ends by its process id."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run
from tests.integration.landed_run import landed  # noqa: F401
from tests.integration.localkube_process import LocalkubeProcess, running_localkube
from tests.integration.producer_target import ProducerTarget, make_target

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kube.cluster_check import ready_namespace
from lagbench.adapters.kube.kube import Kube
from lagbench.embedded.broker import Broker
from lagbench.errors import NotReady

_STARTS = 3
_PORT_TAKEN = ("Address already in use", "is taken by")


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Provide a running Kafka broker; leave it running (stop ``own_broker`` instead)."""
    running = started_broker(tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


def started_broker(folder: Path) -> Broker:
    """Return a running broker; one whose port was taken meanwhile is made again on another."""
    for attempt in range(_STARTS):
        broker = Broker(folder / f"start-{attempt}")
        try:
            broker.start()
        except NotReady as error:
            if attempt == _STARTS - 1 or not any(said in str(error) for said in _PORT_TAKEN):
                raise
        else:
            break
    return broker


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


@pytest.fixture
def target(broker: Broker, kafka_admin: KafkaAdmin) -> ProducerTarget:
    """Provide fresh topics of a producer on the session's broker."""
    return make_target(kafka_admin, broker.bootstrap_servers)


@pytest.fixture
def run(
    broker: Broker, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[ConsumerGroupRun]:
    """Provide the topics of a run on the session's broker, with the file's ``PARTITIONS``."""
    servers, partitions = broker.bootstrap_servers, request.module.PARTITIONS
    with consumer_group_run(servers, tmp_path, partitions=partitions) as found:
        yield found


@pytest.fixture
def localkube(tmp_path: Path) -> Iterator[LocalkubeProcess]:
    """Provide a running localkube of its own."""
    with running_localkube(tmp_path / "localkube") as running:
        yield running


@pytest.fixture
def kube(localkube: LocalkubeProcess) -> Iterator[Kube]:
    """Provide the namespace of runs on that localkube."""
    made = Kube.from_kubeconfig(localkube.kubeconfig)
    ready_namespace(made)
    yield made
    made.close()
