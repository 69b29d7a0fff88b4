"""Offsets of several groups in one batch, read from a real broker by a process of its own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from uuid import uuid4

import psutil
import pytest
from tests.eventually import eventually
from tests.integration.autoscaler_setting import LagControl

from lag_scaler.kafka_process import KafkaLagProcess
from lag_scaler.offsets import GroupTopic
from lagbench.embedded.broker import Broker
from localkube.processes import is_alive

pytestmark = pytest.mark.slow
GROUPS = 12  # more than one connection remembers coordinators of


@pytest.fixture
def source(broker: Broker) -> Iterator[KafkaLagProcess]:
    """Provide a source on the session's broker."""
    opened = KafkaLagProcess({"bootstrap.servers": broker.bootstrap_servers})
    yield opened
    opened.close()


def test_a_batch_has_every_group_and_costs_one_request_for_each_and_one_for_all(
    broker: Broker, source: KafkaLagProcess
) -> None:
    """Offsets, missing commits with the log's start, and a missing topic, each for itself."""
    token = uuid4().hex[:8]
    controls = [
        LagControl(broker.bootstrap_servers, f"t-{token}", f"g{number}-{token}", 3)
        for number in range(GROUPS)
    ]
    controls[0].prepare()
    for number, control in enumerate(controls):
        control.set_lag(number)
    wanted = [GroupTopic(control.group, control.topic) for control in controls]
    nobody, nowhere = GroupTopic("nobody", f"t-{token}"), GroupTopic("g", "no-such-topic")

    found = source.sample([*wanted, nobody, nowhere])

    assert [int((found[item].end - found[item].committed).sum()) for item in wanted] == list(
        range(GROUPS)
    )
    assert found[nobody].committed.tolist() == [-1, -1, -1]
    earliest = found[nobody].earliest
    assert earliest is not None
    assert earliest.tolist() == [0, 0, 0]
    assert "no-such-topic" in found[nowhere].error
    counts = []
    for _ in range(3):  # counts that come late belong to what was before: the least is the cost
        counts.append(_requests_of_three_samples(source, wanted))
        if counts[-1] <= 3 * (GROUPS + 1):
            return
    pytest.fail(f"three samples of {GROUPS} groups cost {counts} requests")


def _requests_of_three_samples(source: KafkaLagProcess, wanted: list[GroupTopic]) -> int:
    """Return how many requests they cost, without renewals.

    Librdkafka's counts come every 2 s, later on a busy machine, and are seen with a sample; nothing
    says how much they hold, so there is only the time to wait for.
    """
    began_at = time.monotonic()

    def counted() -> int:
        time.sleep(4)
        source.sample(wanted[:1])
        return source.broker_requests

    before = counted()
    for _ in range(3):
        source.sample(wanted)
    of_the_last_look, counts = 2, counted() - before
    renewals = 2 + int((time.monotonic() - began_at) / 10)  # of the topics' partitions, each 10 s
    return counts - of_the_last_look - renewals


def test_the_end_of_a_process_fails_one_sample_and_no_more(
    broker: Broker, source: KafkaLagProcess
) -> None:
    """As when librdkafka aborts: the reason is told, and the next sample has another process."""
    token = uuid4().hex[:8]
    control = LagControl(broker.bootstrap_servers, f"t-{token}", f"g-{token}", 1)
    control.prepare()
    wanted = GroupTopic(control.group, control.topic)
    assert source.sample([wanted])[wanted].error == ""
    reader = psutil.Process(source.pid)
    os.kill(reader.pid, signal.SIGABRT)
    eventually(lambda: not is_alive(reader.pid), "the process has ended")

    lost, found = (source.sample([wanted])[wanted] for _ in range(2))

    assert "SIGABRT" in lost.error
    assert (found.error, found.end.tolist()) == ("", [100])
    after = psutil.Process(source.pid)
    source.close()
    assert [process.is_running() for process in (reader, after)] == [False, False]
