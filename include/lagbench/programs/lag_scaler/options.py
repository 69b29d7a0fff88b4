"""The scaler's flags; each also has a variable, so that a pod needs no arguments."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from lagbench.errors import WrongInput

PROGRAM = "lag_scaler"
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True)
class ScalerOptions:
    """How the server is reached, what it keeps, and for how long it waits."""

    address: str
    port: int
    metrics_port: int
    tls_cert: Path | None
    tls_key: Path | None
    client_ca: Path | None
    state_file: Path | None
    state_seconds: float
    idle_seconds: float
    first_sample_seconds: float
    drain_seconds: float


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongInput(where=PROGRAM, field="flags", value=message, allowed="see --help")


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> ScalerOptions:
    """Return the options; a flag wins over its variable.

    :raises WrongInput: a flag is unknown, out of range or lacks its counterpart.
    """
    flags = vars(_parser(environment).parse_args(arguments))
    options = ScalerOptions(
        address=flags["address"],
        port=_port("--port", flags["port"]),
        metrics_port=_port("--metrics-port", flags["metrics_port"]),
        tls_cert=_path(flags["tls_cert"]),
        tls_key=_path(flags["tls_key"]),
        client_ca=_path(flags["client_ca"]),
        state_file=_path(flags["state_file"]),
        state_seconds=_seconds("--state-seconds", flags["state_seconds"], 0.1, 3_600),
        idle_seconds=_seconds("--idle-seconds", flags["idle_seconds"], 1, 86_400),
        first_sample_seconds=_seconds(
            "--first-sample-seconds", flags["first_sample_seconds"], 0, 30
        ),
        drain_seconds=_seconds("--drain-seconds", flags["drain_seconds"], 0, 60),
    )
    if (options.tls_cert is None) != (options.tls_key is None):
        raise WrongInput(
            where=PROGRAM,
            field="--tls-cert, --tls-key",
            value=f"{options.tls_cert}, {options.tls_key}",
            allowed="both or none",
        )
    if options.client_ca is not None and options.tls_cert is None:
        raise WrongInput(
            where=PROGRAM,
            field="--client-ca",
            value=str(options.client_ca),
            allowed="only together with --tls-cert and --tls-key",
        )
    return options


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, allow_abbrev=False, description="lagbench's lag scaler for KEDA")

    def add(flag: str, variable: str, default: str, help_text: str) -> None:
        parser.add_argument(
            flag,
            default=environment.get(variable) or default,
            help=f"{help_text} ({variable}; default: {default or 'none'})",
        )

    add("--address", "BIND_ADDRESS", "127.0.0.1", "where to listen")
    add("--port", "PORT_GRPC", _original_port(environment) or "6000", "for KEDA; 0: a free one")
    add("--metrics-port", "PORT_METRICS", "8080", "for /metrics, /healthz and /ready")
    add("--tls-cert", "TLS_CERT_FILE", "", "PEM file with the server's certificate")
    add("--tls-key", "TLS_KEY_FILE", "", "PEM file with its key")
    add("--client-ca", "TLS_CLIENT_CA_FILE", "", "PEM file; clients must then prove themselves")
    add("--state-file", "STATE_FILE", "", "where the windows outlive a restart")
    add("--state-seconds", "STATE_SECONDS", "10", "how often they are written")
    add("--idle-seconds", "IDLE_SECONDS", "600", "an object not asked about is dropped after")
    add("--first-sample-seconds", "FIRST_SAMPLE_SECONDS", "2.5", "a new object's call waits for")
    add("--drain-seconds", "DRAIN_SECONDS", "1.0", "calls that are open at SIGTERM get")
    return parser


def _original_port(environment: Mapping[str, str]) -> str:
    """Return GRPC_PORT, the original scaler's variable; not the link to a Service named grpc."""
    port = environment.get("GRPC_PORT", "")
    return "" if "://" in port else port


def _path(text: str) -> Path | None:
    return Path(text) if text else None


def _port(field: str, text: str) -> int:
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise WrongInput(where=PROGRAM, field=field, value=text, allowed=f"0 to {_HIGHEST_PORT}")
    return int(text)


def _seconds(field: str, text: str, low: float, high: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not low <= seconds <= high:
        raise WrongInput(
            where=PROGRAM, field=field, value=text, allowed=f"a number from {low:g} to {high:g}"
        )
    return seconds
