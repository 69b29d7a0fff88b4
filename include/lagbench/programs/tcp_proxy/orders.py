"""Define what the proxy can be asked to do, and its answer: one line of JSON each."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from lagbench.core.scenario.conf_limits import StrictModel
from lagbench.errors import NotReady
from pod_program.flags import CommandLine, Flag, Settings

LOOPBACK = "127.0.0.1"
"""All ports of the proxy."""
ProxyMode = Literal["pass", "latency", "blackhole", "reset"]
MOST_LATENCY_MS = 60_000
LONGEST_ORDER_SECONDS = 86_400


class ProxyOrder(StrictModel):
    """The treatment of all connections from now on; without ``mode`` it requests the state."""

    mode: ProxyMode | None = Field(None, description="pass: nothing is disturbed")
    latency_ms: float = Field(0, ge=0, le=MOST_LATENCY_MS, description="added each way")
    seconds: float | None = Field(
        None,
        gt=0,
        le=LONGEST_ORDER_SECONDS,
        description="then pass again, also if the sender has ended; None: until the next order",
    )

    @model_validator(mode="after")
    def _latency_is_of_its_mode(self) -> Self:
        if (self.mode == "latency") != (self.latency_ms > 0):
            raise ValueError("latency_ms goes with mode latency, and with no other")
        if self.seconds is not None and self.mode in (None, "pass"):
            raise ValueError("seconds goes with latency, blackhole or reset")
        return self


@dataclass(frozen=True, slots=True)
class Fault:
    """The treatment of every connection that is in force."""

    mode: ProxyMode = "pass"
    latency_seconds: float = 0.0
    """Added each way."""

    @property
    def is_holding(self) -> bool:
        """True: connections stay open, and nothing passes."""
        return self.mode == "blackhole"


class ProxyState(StrictModel):
    """The proxy after an order."""

    mode: ProxyMode
    latency_ms: float
    since: int
    """Start of the mode, unix nanoseconds."""
    connections: int
    """Client connections that are open, also those that nothing passes through."""
    reset_connections: int
    """Connections that the proxy has reset since it started."""
    to_broker_bytes: int
    """Bytes that were passed on to the broker since the proxy started."""
    to_clients_bytes: int


class ProxyRefusal(StrictModel):
    """The answer to a line that is not an order."""

    error: str


_HIGHEST_PORT = 65_535


class ProxySettings(Settings):
    """lagbench's proxy between consumers and the broker; all of its ports are on loopback."""

    listen_port: int = Field(
        ge=1, le=_HIGHEST_PORT, description="port that the broker advertises for this listener"
    )
    upstream_port: int = Field(ge=1, le=_HIGHEST_PORT, description="port of the broker's listener")
    control_port: Annotated[int, Flag(variables=("PORT_CONTROL",))] = Field(
        ge=0, le=_HIGHEST_PORT, description="port that takes orders; 0 takes a free one"
    )


parse_settings = CommandLine(ProxySettings, module="lagbench.programs.tcp_proxy").read
Obey = Callable[[ProxyOrder], ProxyState]


def answer_to(line: bytes, obey: Obey) -> bytes:
    """Return the answer to one line, with its line end."""
    try:
        answer: ProxyState | ProxyRefusal = obey(ProxyOrder.model_validate_json(line))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        field = ".".join(map(str, wrong["loc"])) or "order"
        answer = ProxyRefusal(error=f"{field}: {wrong['msg']}")
    return answer.model_dump_json().encode() + b"\n"


@contextlib.asynccontextmanager
async def orders_taken(port: int, obey: Obey) -> AsyncIterator[int]:
    """Listen for orders; yield the port (0 takes a free one)."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ValueError):  # ValueError: an endless line
            while line := await reader.readline():
                writer.write(answer_to(line, obey))
                await writer.drain()
        writer.close()

    try:
        server = await asyncio.start_server(serve, LOOPBACK, port)
    except OSError as error:
        raise NotReady(f"cannot listen on {LOOPBACK}:{port}: {error.strerror}") from error
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


_ANSWER: TypeAdapter[ProxyState | ProxyRefusal] = TypeAdapter(ProxyState | ProxyRefusal)
_ANSWER_SECONDS = 5.0


def order_proxy(port: int, order: ProxyOrder) -> ProxyState:
    """Give the proxy with this control port an order and return its state after it."""
    line = order.model_dump_json().encode() + b"\n"
    try:
        with (
            socket.create_connection((LOOPBACK, port), timeout=_ANSWER_SECONDS) as connection,
            connection.makefile("rb") as answers,
        ):
            connection.sendall(line)
            answer = _ANSWER.validate_json(answers.readline())
    except (OSError, ValidationError) as error:
        raise NotReady(f"the broker proxy on port {port} does not answer: {error}") from error
    if isinstance(answer, ProxyRefusal):
        raise NotReady(f"the broker proxy on port {port} does not obey: {answer.error}")
    return answer
