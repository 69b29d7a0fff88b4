"""The flags and variables of the program."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from pod_program.errors import WrongInput
from pod_program.flags import CommandLine, Flag, Settings

PROGRAM = "lag_scaler"
_HIGHEST_PORT = 65_535
_ORIGINAL_PORT = "GRPC_PORT"  # the variable of the original scaler


def _from(*variables: str) -> Flag:
    return Flag(variables=variables)


class ScalerOptions(Settings):
    """Serve KEDA the lag that persists."""

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
    # Kubernetes sets GRPC_PORT, too, as a link to a Service named grpc.
    is_link = "://" in environment.get(_ORIGINAL_PORT, "")
    own = {k: v for k, v in environment.items() if not (is_link and k == _ORIGINAL_PORT)}
    line = CommandLine(ScalerOptions, module=PROGRAM)
    options = line.read(arguments, own)
    if (options.tls_cert is None) != (options.tls_key is None):
        pair = f"{options.tls_cert}, {options.tls_key}"
        raise _refusal("--tls-cert, --tls-key", pair, "both or none")
    if options.client_ca is not None and options.tls_cert is None:
        allowed = "only together with --tls-cert and --tls-key"
        raise _refusal("--client-ca", str(options.client_ca), allowed)
    for server in filter(None, map(str.strip, options.allowed_brokers.split(","))):
        if server != "*" and not re.fullmatch(r"[^\s/@]+:[0-9*]+", server):
            allowed = "host:port, with * for any characters, for example *.kafka.svc:9092"
            raise _refusal("--allowed-brokers", server, allowed)
    return options


def _refusal(field: str, value: str, allowed: str) -> WrongInput:
    return WrongInput(where=PROGRAM, field=field, value=value, allowed=allowed)
