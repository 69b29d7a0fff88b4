"""The lag that the hook's reader reports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.core.keda.loop.kafka_lag import PartitionOffsets
from lagbench.errors import NotReady, WrongInput

from lagbench_airflow.hooks import kafka  # isort: skip

HELD = {
    0: PartitionOffsets(end=10, committed=7),
    1: PartitionOffsets(end=10, committed=None, earliest=4),
}


def lags(monkeypatch: pytest.MonkeyPatch, offsets: dict[int, PartitionOffsets]) -> dict[int, int]:
    """Read the lag from a broker that has these offsets."""
    monkeypatch.setattr(kafka, "read_partitions", lambda *_: list(offsets))
    monkeypatch.setattr(
        kafka,
        "read_offsets",
        lambda *_, **__: {("orders", number): found for number, found in offsets.items()},
    )
    reader = kafka.LagReader({"bootstrap.servers": "127.0.0.1:1"}, awaits_transactions=False)
    try:
        return reader.lags("billing", "orders")
    finally:
        reader.close()


def test_without_a_commit_the_kept_messages_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deleted messages are no lag: the partition keeps those from its oldest offset on."""
    assert lags(monkeypatch, HELD) == {0: 3, 1: 6}


def test_a_commit_beyond_the_end_hides_no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic that was created again has commits of the earlier one; they are no negative lag."""
    assert lags(monkeypatch, {0: PartitionOffsets(end=2, committed=9)}) == {0: 0}


def test_an_unknown_offset_is_no_lag_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the end, or without commit and oldest offset, the reading fails."""
    for offsets in (
        PartitionOffsets(end=None, committed=1),
        PartitionOffsets(end=3, committed=None),
    ):
        with pytest.raises(NotReady, match="orders partition 2"):
            lags(monkeypatch, {**HELD, 2: offsets})


def test_a_connection_that_loads_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may edit connections need not run code on the worker; the Test button says why."""
    extra = {"bootstrap.servers": "127.0.0.1:1", "plugin.library.paths": "/tmp/evil.so"}  # noqa: S108
    monkeypatch.setattr(kafka, "connection", lambda *_: SimpleNamespace(extra_dejson=extra))

    with pytest.raises(WrongInput, match=r"plugin\.library\.paths"):
        kafka.KafkaHook().get_conn()
    assert kafka.KafkaHook().test_connection()[0] is False
