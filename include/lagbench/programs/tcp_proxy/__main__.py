"""``python -m lagbench.programs.tcp_proxy``: carry connections until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when a port is taken.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping

from lagbench.programs.tcp_proxy.orders import ProxySettings, orders_taken, parse_settings
from lagbench.programs.tcp_proxy.proxy import Proxy
from pod_program.http_endpoint import HttpEndpoint, address_and_port, probe_routes
from pod_program.program import run_program

_LONGEST_END_SECONDS = 30.0
"""After SIGTERM connections may end by themselves: consumers commit and leave meanwhile."""
log = logging.getLogger("lagbench.programs.tcp_proxy")


async def run(settings: ProxySettings, environment: Mapping[str, str]) -> None:
    """Carry connections until a signal comes, then those that are left until they end."""
    until = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, until.set)
    listening = Proxy(listen_port=settings.listen_port, upstream_port=settings.upstream_port)
    async with listening as proxy, orders_taken(settings.control_port, proxy.obey) as control_port:
        log.info(
            "port %d to port %d, orders on port %d",
            settings.listen_port,
            settings.upstream_port,
            control_port,
        )
        if environment.get("PORT_METRICS"):  # a pod's probes; a plain process has none
            HttpEndpoint(*address_and_port(environment), probe_routes(lambda: True))
        await until.wait()
        await proxy.emptied(_LONGEST_END_SECONDS)


def main() -> int:
    """Run as a program."""
    asyncio.run(run(parse_settings(sys.argv[1:], os.environ), os.environ))
    return 0


if __name__ == "__main__":
    run_program(main)
