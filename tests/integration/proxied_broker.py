"""A real broker with the proxy of the bench before its second listener."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.eventually import eventually

from lagbench.embedded.broker import Broker, ProxiedListener
from lagbench.embedded.child_server import free_port
from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.orders import ProxyOrder, ProxyState, order_proxy
from localkube.processes import end_process, start_tied


@dataclass(frozen=True)
class ProxiedBroker:
    """A broker with the proxy before its second listener."""

    broker: Broker
    listener: ProxiedListener
    control_port: int
    process: subprocess.Popen[bytes]

    def obey(self, **order: object) -> ProxyState:
        """Give the proxy an order."""
        return order_proxy(self.control_port, ProxyOrder.model_validate(order))


@contextlib.contextmanager
def proxied_broker(folder: Path) -> Iterator[ProxiedBroker]:
    """Yield a broker whose second listener is behind a running proxy."""
    port = free_port()
    behind = free_port(besides={port})
    advertised = free_port(besides={port, behind})
    control = free_port(besides={port, behind, advertised})
    listener = ProxiedListener(port=behind, advertised_port=advertised)
    broker = Broker(folder / "broker", port=port, proxied=listener)
    broker.start()
    command = [sys.executable, "-m", "lagbench.programs.tcp_proxy"]
    command += [f"--listen-port={advertised}", f"--upstream-port={behind}"]
    with (folder / "proxy.log").open("ab") as log:
        process = start_tied([*command, f"--control-port={control}"], log=log)
    found = ProxiedBroker(broker, listener, control, process)

    def answers() -> ProxyState | None:
        try:
            return found.obey()
        except NotReady:
            return None

    try:
        eventually(answers, "the proxy")
        yield found
    finally:
        end_process(process.pid, grace_seconds=5)
        broker.stop()
