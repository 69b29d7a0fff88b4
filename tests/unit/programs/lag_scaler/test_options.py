"""The scaler's flags and their variables."""

from pathlib import Path

import pytest

from lagbench.errors import WrongInput
from lagbench.programs.lag_scaler.options import parse_options


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
