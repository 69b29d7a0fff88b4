"""What surrounds the registry: series of a scrape, the login of a client, log, flags and state."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from tests.unit.lag_scaler.test_registry import Setting, answered, in_loop, ref

from lag_scaler.__main__ import LogLimit
from lag_scaler.addresses import KafkaCluster, KafkaLogin
from lag_scaler.metrics import ScalerMetrics
from lag_scaler.options import parse_options
from lag_scaler.registry import ObjectRegistry
from lag_scaler.server import save
from lag_scaler.state import SavedState, read_state, write_state
from lagbench.errors import NotReady, WrongInput
from pod_program.kafka_config import CONFIG_VARIABLE

_PREFIX = "lagbench_scaler_object_"


def figures(setting: Setting, name: str) -> dict[str, float]:
    """Return the series of one object, by name without the prefix."""
    text = setting.figures.exposition()[1].decode()
    wanted = {"object": f"n/{name}", "group": "enrich", "topic": "events"}
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_PREFIX) and sample.labels == wanted
    }


@in_loop
async def test_each_object_reports_what_it_saw_and_what_it_serves(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """Two partitions of 100 each: one rule is met at once, the other has not lasted.

    Changed metadata takes the place of the old; a decision that is too old for KEDA has no series.
    """
    at_once, _, _ = await answered(
        registry, ref("a", sustainSeconds="0"), ref("b"), ref("b", lagThreshold="50")
    )
    assert figures(setting, "a") == {
        "lag_records": 200,
        "largest_lag_records": 100,
        "persistence_seconds": 0,
        "sustain_seconds": 0,
        "persistent": 1,
        "active": 1,
        "metric_value": at_once.decision().metric_value,
        "metric_target": 10,
    }
    found = figures(setting, "b")
    assert (found["lag_records"], found["sustain_seconds"]) == (200, 20)
    assert (found["persistent"], found["active"], found["metric_value"]) == (0, 0, 0)
    assert (len(registry), found["metric_target"]) == (3, 50)
    setting.now_ns += 26 * 10**9
    assert figures(setting, "a") == {}


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "open-sesame-4711",
}
OWN = ("kafka-0:9092", "kafka-1:9092")
BOB = KafkaLogin(sasl="plaintext", username="bob", password=SecretStr("his-own"))
OF_BOB = {
    "security.protocol": "sasl_plaintext",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "bob",
    "sasl.password": "his-own",
}


@pytest.mark.parametrize(
    ("own", "cluster", "settings"),
    [
        # the login in the file goes to the own cluster, however its servers are ordered
        (OWN, {"bootstrap_servers": OWN}, LOGIN),
        (OWN, {"bootstrap_servers": OWN[::-1]}, LOGIN),
        # anybody who may write a ScaledObject may name an address: it gets no password
        (OWN, {"bootstrap_servers": ("evil:9092",)}, {}),
        (OWN, {"bootstrap_servers": (*OWN, "evil:9092")}, {}),
        (OWN, {"bootstrap_servers": OWN[:1]}, {}),
        ((), {"bootstrap_servers": OWN}, {}),
        # the file wins over what is stated, but is not mixed with a login of the object
        (OWN, {"bootstrap_servers": OWN, "login": KafkaLogin(is_tls=True)}, LOGIN),
        (OWN, {"bootstrap_servers": OWN, "login": BOB}, LOGIN),
        (OWN, {"bootstrap_servers": OWN, "login": BOB, "has_login_of_object": True}, OF_BOB),
        (OWN, {"bootstrap_servers": ("other:9092",), "login": BOB}, OF_BOB),
    ],
)
def test_the_servers_login_goes_to_its_own_cluster_alone(
    tmp_path: Path, own: tuple[str, ...], cluster: dict[str, Any], settings: dict[str, str]
) -> None:
    """What a client gets of the file, and of the login that an object states."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))
    environment = {CONFIG_VARIABLE: str(file), "KAFKA_BROKERS": ", ".join(own)}

    found = KafkaCluster(**cluster).client_settings(environment)

    assert found == {**settings, "bootstrap.servers": ",".join(cluster["bootstrap_servers"])}


def record(level: int, text: Any, *values: object) -> logging.LogRecord:
    """Return a line of a program (a mapping) or of a library (a text)."""
    return logging.LogRecord("grpc", level, "", 0, text, values, None)


@pytest.mark.parametrize(("level", "most"), [(logging.INFO, 1_000), (logging.WARNING, 100)])
def test_lines_of_an_event_above_its_limit_are_left_out_and_counted(level: int, most: int) -> None:
    """Another event is not concerned; the next minute's first line says how many are missing.

    Lines of a library count together, because their texts differ by the values in them.
    """
    now = [0.0]
    limit = LogLimit(lambda: now[0])

    written = [limit.filter(record(level, {"event": "refused"})) for _ in range(most + 7)]
    foreign = [limit.filter(record(level, "call %d", n)) for n in range(most + 1)]
    other = record(level, {"event": "decision"})
    assert limit.filter(other)
    assert other.msg == {"event": "decision"}
    now[0] = 60.0
    later = record(level, {"event": "refused"})
    assert limit.filter(later)

    assert written == [True] * most + [False] * 7
    assert foreign == [True] * most + [False]
    assert later.msg == {"event": "refused", "left_out": 7}


@pytest.mark.parametrize("value", ["x" * 100_000, ["x"] * 100_000])
def test_long_values_are_cut(value: object) -> None:
    """Whoever logs them."""
    ours, foreign = record(logging.INFO, {"event": "e", "why": value}), record(20, "%s", value)

    for line in (ours, foreign):
        LogLimit().filter(line)

    assert len(ours.msg["why"]) < 2_100
    assert len(foreign.getMessage()) < 2_100


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({"PORT_METRICS": "7001", "STATE_FILE": "/s"}, 6000),
        ({"GRPC_PORT": "50051"}, 50_051),  # of the original scaler
        ({"GRPC_PORT": "50051", "PORT_GRPC": "7000"}, 7000),
        ({"GRPC_PORT": "tcp://10.96.0.7:6000"}, 6000),  # a Service's link of that name
    ],
)
def test_a_flag_wins_over_its_variable_and_both_over_the_default(
    environment: dict[str, str], port: int
) -> None:
    """A pod needs no arguments; a laptop needs no variables."""
    found = parse_options([], environment)

    assert (found.port, found.address, found.idle_seconds) == (port, "127.0.0.1", 600.0)
    assert parse_options(["--port", "7002"], environment).port == 7002
    assert (found.metrics_port, found.state_file) in {(7001, Path("/s")), (8080, None)}


@pytest.mark.parametrize(
    ("arguments", "environment", "field"),
    [
        (["--port", "70000"], {}, "--port"),
        (["--idle-seconds", "soon"], {}, "--idle-seconds"),
        (["--tls-cert", "c.pem"], {}, "--tls-cert, --tls-key"),
        (["--client-ca", "ca.pem"], {}, "--client-ca"),
        (["--window", "3"], {}, "command line"),
        (["--max-clusters", "0"], {}, "--max-clusters"),
        (["--allowed-brokers", "*.corp:9092,kafka"], {}, "--allowed-brokers"),
        (["--allowed-brokers", "SASL_SSL://kafka"], {}, "--allowed-brokers"),
        ([], {"GRPC_PORT": "soon"}, "GRPC_PORT"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    arguments: list[str], environment: dict[str, str], field: str
) -> None:
    """Each refusal names the flag or the variable."""
    with pytest.raises(WrongInput) as refusal:
        parse_options(arguments, environment)

    assert refusal.value.field == field


EMPTY = SavedState(saved_at_ns=1, objects=[], windows={})


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    """Nothing at first; then the last content, readable by the owner only, and no other file.

    A folder that is missing is not made: the embedded bench has no volume.
    """
    path, last = tmp_path / "state", SavedState(2, [], {"a": b"b"})

    before = read_state(path)
    write_state(path, EMPTY)
    write_state(path, last)

    assert before is None
    assert read_state(path) == last
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(NotReady, match="volume/state"):
        write_state(tmp_path / "volume" / "state", EMPTY)


@pytest.mark.parametrize(
    "data", [b"", b"\x93nonsense", msgspec.msgpack.encode(SavedState(1, [], {}, "x/2"))]
)
def test_other_contents_are_refused(data: bytes, tmp_path: Path) -> None:
    """A file that is cut short, of another program or of another version is not used."""
    (tmp_path / "state").write_bytes(data)

    with pytest.raises(NotReady, match="cannot be used"):
        read_state(tmp_path / "state")


def test_an_error_while_the_state_is_saved_is_counted_and_the_next_state_is_written(
    tmp_path: Path,
) -> None:
    """Without it the task would end: no state until the restart that needs one."""
    results: list[Exception | SavedState] = [RuntimeError("cannot schedule"), EMPTY]

    async def saved() -> SavedState:
        result = results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    registry: Any = SimpleNamespace(saved=saved)
    metrics, path = ScalerMetrics(), tmp_path / "state"

    async def saves() -> None:
        await save(registry, metrics, path)
        assert read_state(path) is None
        await save(registry, metrics, path)

    asyncio.run(saves())

    assert read_state(path) == EMPTY
    for result in ("failed", "good"):
        line = f'lagbench_scaler_state_writes_total{{result="{result}"}} 1.0'
        assert line.encode() in metrics.exposition()[1]
