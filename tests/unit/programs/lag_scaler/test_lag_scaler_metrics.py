"""What a scrape says of each object: what was seen and what is served."""

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
from tests.unit.programs.lag_scaler.test_registry import Setting, answered, ref, with_registry

from lag_scaler.addresses import KafkaCluster, KafkaLogin
from lag_scaler.log_limit import LogLimit
from lag_scaler.metrics import ScalerMetrics
from lag_scaler.options import parse_options
from lag_scaler.registry import ObjectRegistry
from lag_scaler.server import save
from lag_scaler.state import SavedState, read_state, write_state
from lagbench.errors import NotReady, WrongInput
from pod_program.kafka_file import CONFIG_VARIABLE

_PREFIX = "lagbench_scaler_object_"


def figures(setting: Setting, name: str, *, group: str = "enrich") -> dict[str, float]:
    """Return the series of one object and group, by name without the prefix."""
    text = setting.figures.exposition()[1].decode()
    wanted = {"object": f"n/{name}", "group": group, "topic": "events"}
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_PREFIX) and sample.labels == wanted
    }


def test_each_object_reports_what_it_saw_and_what_it_serves() -> None:
    """Two partitions of 100 each: one rule is met at once, the other has not lasted."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        at_once, patient = await answered(registry, ref("a", sustainSeconds="0"), ref("b"))
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
        assert (found["persistent"], found["active"]) == (0, 0)
        assert found["metric_value"] == patient.decision().metric_value == 0

    with_registry(setting, steps)


def test_an_object_without_a_decision_has_no_series() -> None:
    """A gap, never a zero that looks like no lag: no sample ever succeeded."""
    setting = Setting()
    setting.cluster.error = "no broker"

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_a_decision_that_has_become_too_old_has_no_series() -> None:
    """What is shown is what KEDA is told: UNAVAILABLE after 2.5 intervals."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a")["lag_records"] == 200
        setting.now_ns += 26 * 10**9
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_changed_metadata_takes_the_place_of_the_old_in_a_scrape() -> None:
    """Both are watched for a while; one series is shown, that of the newer rule."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"), ref("a", lagThreshold="50"))
        assert len(registry) == 2
        assert setting.figures.exposition()[1].count(b"object_metric_target{") == 1
        assert figures(setting, "a")["metric_target"] == 50

    with_registry(setting, steps)


LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": "open-sesame-4711",
}

OWN = ("kafka-0:9092", "kafka-1:9092")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a lag scaler with a login in a file and its own cluster."""
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in LOGIN.items()))
    return {CONFIG_VARIABLE: str(file), "KAFKA_BROKERS": ", ".join(OWN)}


@pytest.mark.parametrize("servers", [OWN, tuple(reversed(OWN))])
def test_the_login_in_the_file_goes_to_the_own_cluster(
    environment: dict[str, str], servers: tuple[str, ...]
) -> None:
    """The order in which an object names the own servers does not matter."""
    found = KafkaCluster(bootstrap_servers=servers).client_settings(environment)

    assert found == {**LOGIN, "bootstrap.servers": ",".join(servers)}


@pytest.mark.parametrize("servers", [("evil:9092",), (*OWN, "evil:9092"), OWN[:1]])
def test_the_login_in_the_file_goes_to_no_other_address(
    environment: dict[str, str], servers: tuple[str, ...]
) -> None:
    """Anybody who may write a ScaledObject may name an address: it gets no password."""
    found = KafkaCluster(bootstrap_servers=servers).client_settings(environment)

    assert found == {"bootstrap.servers": ",".join(servers)}


def test_without_an_own_address_the_file_is_not_used(environment: dict[str, str]) -> None:
    """A lag scaler that does not know its own cluster sends its login to nobody."""
    del environment["KAFKA_BROKERS"]

    found = KafkaCluster(bootstrap_servers=OWN).client_settings(environment)

    assert found == {"bootstrap.servers": ",".join(OWN)}


def test_another_cluster_gets_the_login_that_the_object_states(
    environment: dict[str, str],
) -> None:
    """Nothing of the file is mixed into it."""
    login = KafkaLogin(sasl="plaintext", username="bob", password=SecretStr("his-own"))
    cluster = KafkaCluster(bootstrap_servers=("other:9092",), login=login)

    assert cluster.client_settings(environment) == {
        "bootstrap.servers": "other:9092",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "bob",
        "sasl.password": "his-own",
    }


@pytest.mark.parametrize(
    "login",
    [KafkaLogin(is_tls=True), KafkaLogin(sasl="plaintext", username="own")],
)
def test_the_file_wins_over_what_is_stated_for_the_own_cluster(
    environment: dict[str, str], login: KafkaLogin
) -> None:
    """Its protocol and login go together."""
    cluster = KafkaCluster(bootstrap_servers=OWN, login=login)

    found = cluster.client_settings(environment)

    assert {name: found[name] for name in LOGIN} == LOGIN


def test_a_login_of_an_object_for_the_own_cluster_is_not_mixed_with_the_file(
    environment: dict[str, str],
) -> None:
    """Neither a client certificate nor any other part of the server's login goes with it."""
    Path(environment[CONFIG_VARIABLE]).write_text("security.protocol=ssl\nssl.key.password=x\n")
    login = KafkaLogin(sasl="plaintext", username="bob", password=SecretStr("his-own"))
    cluster = KafkaCluster(bootstrap_servers=OWN, login=login, has_login_of_object=True)

    found = cluster.client_settings(environment)

    assert found["security.protocol"] == "sasl_plaintext"
    assert "ssl.key.password" not in found


def record(level: int, text: Any, *values: object) -> logging.LogRecord:
    """Return a line of a program (a mapping) or of a library (a text)."""
    return logging.LogRecord("grpc", level, "", 0, text, values, None)


@pytest.mark.parametrize(("level", "most"), [(logging.INFO, 1_000), (logging.WARNING, 100)])
def test_lines_of_an_event_above_its_limit_are_left_out_and_counted(level: int, most: int) -> None:
    """Another event is not concerned; the next minute's first line says how many are missing."""
    now = [0.0]
    limit = LogLimit(lambda: now[0])

    written = [limit.filter(record(level, {"event": "refused"})) for _ in range(most + 7)]
    other = record(level, {"event": "decision"})
    assert limit.filter(other)
    assert other.msg == {"event": "decision"}
    now[0] = 60.0
    later = record(level, {"event": "refused"})
    assert limit.filter(later)

    assert written == [True] * most + [False] * 7
    assert later.msg == {"event": "refused", "left_out": 7}


def test_lines_of_a_library_count_together() -> None:
    """Their texts differ by the values in them."""
    limit = LogLimit(lambda: 0.0)

    written = [limit.filter(record(logging.ERROR, "call %d", n)) for n in range(101)]

    assert written == [True] * 100 + [False]


@pytest.mark.parametrize("value", ["x" * 100_000, ["x"] * 100_000])
def test_long_values_are_cut(value: object) -> None:
    """Whoever logs them."""
    ours, foreign = record(logging.INFO, {"event": "e", "why": value}), record(20, "%s", value)

    for line in (ours, foreign):
        LogLimit().filter(line)

    assert len(ours.msg["why"]) < 2_100
    assert len(foreign.getMessage()) < 2_100


def test_a_flag_wins_over_its_variable_and_both_over_the_default() -> None:
    """A pod needs no arguments; a laptop needs no variables."""
    environment = {"PORT_GRPC": "7000", "PORT_METRICS": "7001", "STATE_FILE": "/tmp/s"}  # noqa: S108

    found = parse_options(["--port", "7002"], environment)

    assert (found.port, found.metrics_port, found.address) == (7002, 7001, "127.0.0.1")
    assert found.state_file == Path("/tmp/s")  # noqa: S108
    assert (found.idle_seconds, found.first_sample_seconds) == (600.0, 2.5)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["--port", "70000"], "--port"),
        (["--idle-seconds", "soon"], "--idle-seconds"),
        (["--tls-cert", "c.pem"], "--tls-cert, --tls-key"),
        (["--client-ca", "ca.pem"], "--client-ca"),
        (["--window", "3"], "command line"),
        (["--max-clusters", "0"], "--max-clusters"),
        (["--allowed-brokers", "*.corp:9092,kafka"], "--allowed-brokers"),
        (["--allowed-brokers", "SASL_SSL://kafka"], "--allowed-brokers"),
    ],
)
def test_flags_that_cannot_work_are_refused(arguments: list[str], field: str) -> None:
    """Each refusal names the flag."""
    with pytest.raises(WrongInput) as refusal:
        parse_options(arguments, {})

    assert refusal.value.field == field


@pytest.mark.parametrize(
    ("environment", "port"),
    [
        ({"GRPC_PORT": "50051"}, 50_051),
        ({"GRPC_PORT": "50051", "PORT_GRPC": "7000"}, 7000),
        ({"GRPC_PORT": "tcp://10.96.0.7:6000"}, 6000),
        ({}, 6000),
    ],
)
def test_the_variable_of_the_original_scaler_names_the_port(
    environment: dict[str, str], port: int
) -> None:
    """A Deployment that moves over listens where it did; a Service's link of that name is none."""
    assert parse_options([], environment).port == port


def test_a_port_of_the_original_scaler_that_is_none_is_refused() -> None:
    """It is checked as the flag is."""
    with pytest.raises(WrongInput, match="soon"):
        parse_options([], {"GRPC_PORT": "soon"})


EMPTY = SavedState(saved_at_ns=1, objects=[], windows={})


def test_what_was_written_last_is_read(tmp_path: Path) -> None:
    """Nothing at first; then the last content, readable by the owner only, and no other file."""
    path, last = tmp_path / "state", SavedState(2, [], {"a": b"b"})

    before = read_state(path)
    write_state(path, EMPTY)
    write_state(path, last)

    assert before is None
    assert read_state(path) == last
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_is_missing_is_not_made(tmp_path: Path) -> None:
    """The embedded bench has no volume: writing fails with the path, and leaves no trace."""
    path = tmp_path / "volume" / "state"

    assert read_state(path) is None
    with pytest.raises(NotReady, match="volume/state"):
        write_state(path, EMPTY)
    assert not path.parent.exists()


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
    exposed = metrics.exposition()[1]
    assert b'lagbench_scaler_state_writes_total{result="failed"} 1.0' in exposed
    assert b'lagbench_scaler_state_writes_total{result="good"} 1.0' in exposed
