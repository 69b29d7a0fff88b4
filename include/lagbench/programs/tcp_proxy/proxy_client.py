"""Ask a running proxy to disturb its connections."""

from __future__ import annotations

import socket

from pydantic import TypeAdapter, ValidationError

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.orders import LOOPBACK, ProxyOrder, ProxyRefusal, ProxyState

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
