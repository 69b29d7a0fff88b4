"""No caller floods the log."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from lagbench.errors import WrongInput
from lagbench.programs.lag_scaler.lag_scaler_options import LogLimit, parse_options


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
