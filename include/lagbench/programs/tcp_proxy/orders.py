"""Define what the proxy can be asked to do, and its answer: one line of JSON each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from lagbench.core.scenario.flag import StrictModel

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
