"""Limit the log, because a caller can cause lines: their number per minute, and their length."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from pod_program.errors import WrongInput
from pod_program.flags import CommandLine, Flag, Settings
from pod_program.shown import cut

# Lines of INFO follow objects, whose number is limited; a warning may come from any call.
INFO_LINES_PER_MINUTE = 1_000

OTHER_LINES_PER_MINUTE = 100

LONGEST_VALUE = 2_000

_SECONDS = 60.0


class LogLimit(logging.Filter):
    """Drops the lines above an event's limit; its next line has their number as ``left_out``."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Count from now on."""
        super().__init__()
        self._monotonic = monotonic
        self._minute = 0.0
        self._written: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is written; cut its values."""
        if isinstance(record.msg, dict):
            fields, event = record.msg, str(record.msg["event"])
        else:  # another library's: its text has values in it, so its lines count together
            fields, event = {"event": record.getMessage()}, record.name
        minute = self._monotonic() // _SECONDS
        if minute != self._minute:
            self._minute = minute
            self._written.clear()
        self._written[event] += 1
        is_info = record.levelno <= logging.INFO
        if self._written[event] > (INFO_LINES_PER_MINUTE if is_info else OTHER_LINES_PER_MINUTE):
            self._left_out[event] += 1
            return False
        left_out = self._left_out.pop(event, 0)
        short = {name: _cut(value) for name, value in fields.items()}
        if fields is record.msg:
            record.msg = {**short, **({"left_out": left_out} if left_out else {})}
        else:
            record.msg, record.args = short["event"], ()
        return True


def _cut(value: Any) -> Any:
    """Return a value of at most ``LONGEST_VALUE`` characters; the end of a traceback says most."""
    text = value if isinstance(value, str) else repr(value)
    return value if len(text) <= LONGEST_VALUE else cut(text, LONGEST_VALUE)


PROGRAM = "lag_scaler"

_HIGHEST_PORT = 65_535

_ORIGINAL_PORT = "GRPC_PORT"
"""The variable of the original scaler."""


def _from(*variables: str) -> Flag:
    return Flag(variables=variables)


class ScalerOptions(Settings):
    """lagbench's lag scaler for KEDA."""

    address: Annotated[str, _from("BIND_ADDRESS")] = Field(
        "127.0.0.1", description="listen address"
    )
    port: Annotated[int, _from("PORT_GRPC", _ORIGINAL_PORT)] = Field(
        6000, ge=0, le=_HIGHEST_PORT, description="for KEDA; 0: a free one"
    )
    metrics_port: Annotated[int, _from("PORT_METRICS")] = Field(
        8080, ge=0, le=_HIGHEST_PORT, description="for /metrics, /healthz and /ready"
    )
    tls_cert: Annotated[Path | None, _from("TLS_CERT_FILE")] = Field(
        None, description="PEM file with the server's certificate"
    )
    tls_key: Annotated[Path | None, _from("TLS_KEY_FILE")] = Field(
        None, description="PEM file with its key"
    )
    client_ca: Annotated[Path | None, _from("TLS_CLIENT_CA_FILE")] = Field(
        None, description="PEM file; clients must then present a certificate"
    )
    allowed_brokers: Annotated[str, _from("ALLOWED_BROKERS")] = Field(
        "",
        description="servers that objects may name: host:port, several separated by commas, * for "
        "any characters; without it KAFKA_BROKERS and IGGY_ADDRESS, without those any",
    )
    max_objects: Annotated[int, _from("MAX_OBJECTS")] = Field(
        1_000, ge=1, le=100_000, description="objects watched at the same time"
    )
    max_clusters: Annotated[int, _from("MAX_CLUSTERS")] = Field(
        20, ge=1, le=1_000, description="clusters sampled at the same time, a process for each"
    )
    reflection: Annotated[bool, _from("REFLECTION")] = Field(
        default=False, description="describe the service to any caller, for grpcurl"
    )
    state_file: Annotated[Path | None, _from("STATE_FILE")] = Field(
        None, description="file that keeps the windows over a restart"
    )
    state_seconds: Annotated[float, _from("STATE_SECONDS")] = Field(
        10.0, ge=0.1, le=3_600, description="time between two writes of the windows"
    )
    idle_seconds: Annotated[float, _from("IDLE_SECONDS")] = Field(
        600.0, ge=1, le=86_400, description="an object without calls for this time is dropped"
    )
    first_sample_seconds: Annotated[float, _from("FIRST_SAMPLE_SECONDS")] = Field(
        2.5, ge=0, le=30, description="longest wait of a new object's first call"
    )
    drain_seconds: Annotated[float, _from("DRAIN_SECONDS")] = Field(
        1.0, ge=0, le=60, description="time for calls that are open at SIGTERM"
    )


def parse_options(arguments: Sequence[str], environment: Mapping[str, str]) -> ScalerOptions:
    """Return the options; a flag wins over its variable.

    :raises WrongInput: a flag is unknown, out of range or lacks its counterpart.
    """
    line = CommandLine(ScalerOptions, module="lag_scaler")
    options = line.read(arguments, _without_link(environment))
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
    for allowed in filter(None, map(str.strip, options.allowed_brokers.split(","))):
        if allowed != "*" and not re.fullmatch(r"[^\s/@]+:[0-9*]+", allowed):
            raise WrongInput(
                where=PROGRAM,
                field="--allowed-brokers",
                value=allowed,
                allowed="host:port, with * for any characters, for example *.kafka.svc:9092",
            )
    return options


def _without_link(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Drop the GRPC_PORT that Kubernetes sets as a link to a Service named grpc."""
    is_link = "://" in environment.get(_ORIGINAL_PORT, "")
    return {k: v for k, v in environment.items() if not (is_link and k == _ORIGINAL_PORT)}
