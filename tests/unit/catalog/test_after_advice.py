"""The example consumer commits nothing whose result was not delivered."""

from __future__ import annotations

import importlib.util
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from lagbench.project import PROJECT_ROOT

CODE = PROJECT_ROOT / "include" / "catalog" / "consumers" / "after_advice.py"
ENVIRONMENT = {
    "KAFKA_BROKERS": "127.0.0.1:1",
    "CLIENT_ID": "orders-1",
    "GROUP_ID": "orders",
    "ORDERS_TOPIC": "orders",
    "PRICES_TOPIC": "prices",
}


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the example's module, for a broker that nobody runs."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    found = importlib.util.spec_from_file_location("after_advice", CODE)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    monkeypatch.setitem(module.SETTINGS, "message.timeout.ms", 100)
    monkeypatch.setitem(module.SETTINGS, "log_level", 0)
    return module


def test_a_price_that_cannot_be_delivered_is_not_committed(example: ModuleType) -> None:
    """The producer's queue is empty then, too; the process ends, and another prices the order."""
    orders: Any = example.Orders()
    order = {"error": None, "value": b"{}", "key": b"1", "headers": [], "topic": "orders"}
    message = {**order, "partition": 0, "offset": 7}
    orders._take(SimpleNamespace(**{name: lambda v=value: v for name, value in message.items()}))

    with pytest.raises(KafkaException):
        orders._settle()

    assert orders._next == {("orders", 0): 8}
    orders._consumer.close()
