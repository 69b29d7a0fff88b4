"""Define the settings of the broker proxy and read them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lagbench.core.scenario.flag import Flag
from lagbench.programs.flags import CommandLine, Settings

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
