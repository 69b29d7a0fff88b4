"""The disturbance in force, shared by all connections of the proxy."""

from __future__ import annotations

from dataclasses import dataclass

from lagbench.programs.tcp_proxy.orders import ProxyMode


@dataclass(frozen=True, slots=True)
class Fault:
    """The treatment of every connection."""

    mode: ProxyMode = "pass"
    latency_seconds: float = 0.0
    """Added each way."""

    @property
    def is_holding(self) -> bool:
        """True: connections stay open, and nothing passes."""
        return self.mode == "blackhole"

    @property
    def is_resetting(self) -> bool:
        """True: connections are reset, new ones too."""
        return self.mode == "reset"
