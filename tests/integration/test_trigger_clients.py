"""A wait through a restart of a real broker."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from tests.eventually import eventually
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow
from tests.integration.autoscaler_setting import LagControl

from lagbench.adapters.kafka.kafka_lag import LagClient, open_admin
from lagbench.core.scenario.run_names import RunNames
from lagbench.embedded.broker import Broker

from lagbench_airflow.hooks import kafka  # isort: skip
from lagbench_airflow.triggers.condition import ConditionTrigger, KeptClients, Reading  # isort: skip
from lagbench_airflow.triggers.conditions import Lag  # isort: skip

pytestmark = pytest.mark.slow
LIMIT_SECONDS = 600.0


def test_a_wait_keeps_its_clients_and_outlives_a_restart_of_the_broker(
    own_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One client serves until the broker goes; after its return the lag is seen again."""
    own_broker.start()
    names = RunNames("restarted")
    control = LagControl(own_broker.bootstrap_servers, names.events_topic, names.group, 2)
    control.prepare()
    control.set_lag(7)
    settings = {"bootstrap.servers": own_broker.bootstrap_servers}
    connection = {"conn_type": "kafka", "extra": settings}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", json.dumps(connection))
    opened: list[LagClient] = []
    seen: list[object] = []

    def counted(*given: Any, **more: Any) -> LagClient:
        opened.append(open_admin(*given, **more))
        return opened[-1]

    class Watched(Lag):
        def read(self, clients: KeptClients) -> Reading:
            reading = super().read(clients)
            seen.append(reading.seen["total_lag"])
            return reading

    monkeypatch.setattr(kafka, "open_admin", counted)
    lag = Watched(
        topic=names.events_topic,
        group=names.group,
        kafka_conn_id="kafka_default",
        threshold_records=0,
        is_above=False,
    )
    trigger = ConditionTrigger(
        conditions={"": lag},
        deadline_at=time.time() + LIMIT_SECONDS,
        hold_seconds=0.0,
        poll_seconds=0.05,
    )

    async def wait() -> list[dict[str, object]]:
        return [dict(event.payload) async for event in trigger.run()]

    async def restart_in_the_middle() -> list[dict[str, object]]:
        waiting = asyncio.create_task(wait())
        await asyncio.to_thread(eventually, lambda: len(seen) >= 5, "five readings")
        assert len(opened) == 1
        await asyncio.to_thread(own_broker.stop)
        # The reading under way fails first; one over the old client would not be told from it.
        await asyncio.to_thread(eventually, lambda: len(opened) >= 2, "a new client")
        await asyncio.to_thread(own_broker.start)
        await asyncio.to_thread(control.set_lag, 0)
        return await waiting

    events = asyncio.run(restart_in_the_middle())

    assert events == [{"reason": "reached", "seen": {"total_lag": 0, "largest_partition_lag": 0}}]
    assert set(seen) == {7, 0}
