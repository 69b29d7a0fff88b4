"""Traces of real traffic: from a Prometheus of two hours, and from a topic of a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from tests.integration.autoscaler_setting import make_topic
from tests.integration.prometheus_process import PrometheusProcess, running_prometheus

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.adapters.kafka.topic_history import TopicHistory
from lagbench.catalog.catalog import checked_cell
from lagbench.cli.app import app
from lagbench.core.scenario.offered_load import OfferedLoad, offered_load
from lagbench.core.simulation.plan import plan_cell
from lagbench.embedded.broker import Broker
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

pytestmark = pytest.mark.slow

CONFIG = PROJECT_ROOT / "k8s" / "base" / "monitoring" / "prometheus.yml"
STEP, SECONDS = 15, 7200
SPIKE, GAP = range(3000, 3600), range(5000, 5400)


def instant(second: float) -> str:
    """Return a Unix second as an option takes it."""
    return datetime.fromtimestamp(second, UTC).isoformat()


def trace(command: str, *options: str) -> int:
    """Call the command."""
    return int(app(["trace", command, *options], standalone_mode=False))


def load_of(file: Path) -> OfferedLoad:
    """Return the load of a written scenario."""
    return offered_load(checked_cell(file).scenario.profile)


@pytest.fixture(scope="module")
def started_at() -> int:
    """Return the start of the two hours."""
    return int(time.time()) - SECONDS - 60


@pytest.fixture(scope="module")
def prometheus(
    tmp_path_factory: pytest.TempPathFactory, started_at: int
) -> Iterator[PrometheusProcess]:
    """Provide a Prometheus with a counter of two shops: 40/s and 10/s, in the spike ten times."""
    lines, totals = ["# TYPE orders counter"], [0.0, 0.0]
    rows: dict[int, list[str]] = {0: [], 1: []}
    for second in range(0, SECONDS + 1, STEP):
        for shop, rate in enumerate((40, 10)):
            totals[shop] += rate * STEP * (10 if second in SPIKE else 1)
            if second not in GAP:
                text = f'orders_total{{shop="{shop}"}} {totals[shop]} {started_at + second}'
                rows[shop].append(text)
    past = "\n".join([*lines, *rows[0], *rows[1], "# EOF"]) + "\n"
    folder = tmp_path_factory.mktemp("prometheus")
    with running_prometheus(CONFIG, folder / "server", past=past) as running:
        yield running


def options(server: PrometheusProcess, query: str, first: int, last: int, to: Path) -> list[str]:
    """Return the options of a period of the two hours."""
    url = f"http://127.0.0.1:{server.port}"
    period = ["--from", instant(first), "--to", instant(last)]
    return ["--url", url, "--query", query, *period, "--output", str(to)]


def test_a_prometheus_gives_its_traffic(
    prometheus: PrometheusProcess, started_at: int, tmp_path: Path
) -> None:
    """The spike is where it was, and as high."""
    file, query = tmp_path / "shop.yaml", "sum(rate(orders_total[30s]))"
    first, last = started_at + 600, started_at + 4800

    assert trace("from-prometheus", *options(prometheus, query, first, last, file)) == 0

    load = load_of(file)
    assert (load.duration_seconds, load.peak_rate) == (4200, pytest.approx(500, rel=0.01))
    assert load.total == pytest.approx(50 * 4200 + 450 * 600, rel=0.01)
    spike = [part.start_seconds for part in load.segments if part.rate_per_second > 400]
    assert spike[0] + first - started_at == pytest.approx(SPIKE.start, abs=2 * STEP)
    with pytest.raises(WrongInput, match="nothing is overwritten"):
        trace("from-prometheus", *options(prometheus, query, first, last, file))


@pytest.mark.parametrize(
    ("query", "part"),
    [
        ("sum(rate(nothing[30s]))", "its answer is empty"),
        ("rate(orders_total[30s])", 'one series, not 2 ({shop="0"}; {shop="1"}): sum('),
        ("-sum(rate(orders_total[30s]))", "below 0"),
        ("sum(rate(orders_total[30s])) / 0", "infinite"),
        ("sum(rate(orders_total[30s]", "parse error"),
        ("sum(rate(orders_total[30s]))", "--interpolate"),
    ],
)
def test_what_is_no_traffic_is_one_message(
    prometheus: PrometheusProcess, started_at: int, tmp_path: Path, query: str, part: str
) -> None:
    """Nothing is written; the last one has a gap."""
    file = tmp_path / "shop.yaml"
    end = started_at + (5700 if part == "--interpolate" else 4800)
    with pytest.raises(WrongInput) as refused:
        trace("from-prometheus", *options(prometheus, query, started_at + 600, end, file))

    assert part in str(refused.value)
    assert not list(tmp_path.iterdir())


def test_a_gap_is_bridged_when_it_is_asked_for(
    prometheus: PrometheusProcess, started_at: int, tmp_path: Path
) -> None:
    """The scenario says how much of it was not measured."""
    file, query = tmp_path / "shop.yaml", "sum(rate(orders_total[30s]))"
    given = options(prometheus, query, started_at + 4500, started_at + 6000, file)

    assert trace("from-prometheus", *given, "--interpolate") == 0

    assert load_of(file).total == pytest.approx(50 * 1500, rel=0.01)
    assert "steps were missing, and are interpolated" in file.read_text()


def test_a_topic_gives_its_traffic(broker: Broker, kafka_admin: KafkaAdmin, tmp_path: Path) -> None:
    """Messages of ten minutes ago, of which a quarter are in one of 12 partitions; none is read."""
    topic, start = f"t-{uuid4().hex[:8]}", int(time.time()) - 600
    make_topic(broker.bootstrap_servers, topic, 12)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    rates = [4] * 10 + [40] * 10 + [4] * 10  # a second each, in steps of 10 s
    count = 0
    for second, rate in enumerate(rates):
        for number in range(rate):
            at = (start + second) * 1000 + number
            partition = 3 if count % 4 == 0 else count % 12
            producer.produce(topic, b"x", partition=partition, timestamp=at)
            count += 1
    producer.flush()
    place = ["--bootstrap-servers", broker.bootstrap_servers, "--topic", topic]
    period = ["--from", instant(start), "--to", instant(start + 30)]
    file = tmp_path / "orders.yaml"

    assert trace("from-kafka", *place, *period, "--output", str(file)) == 0

    load, cell = load_of(file), checked_cell(file)
    assert [part.rate_per_second for part in load.segments] == [4, 40, 4]
    ends = kafka_admin.end_offsets(topic)
    hottest = plan_cell(cell.scenario, cell.policy).hottest_share
    assert (cell.scenario.partitions, sum(ends.values())) == (12, 480)
    assert hottest == pytest.approx(max(ends.values()) / 480, abs=0.01)
    assert "CreateTime" in file.read_text()


def test_a_day_of_steps_is_read_in_time(broker: Broker) -> None:
    """8,640 steps of 12 partitions, half a minute at most."""
    topic = f"t-{uuid4().hex[:8]}"
    make_topic(broker.bootstrap_servers, topic, 12)
    now, began = int(time.time()), time.monotonic()
    with TopicHistory({"bootstrap.servers": broker.bootstrap_servers}) as history:
        found = history.offsets_by_time(topic, [(now - 10 * one) * 1000 for one in range(8640)])

    assert found.shape == (8640, 12)
    assert time.monotonic() - began < 60
