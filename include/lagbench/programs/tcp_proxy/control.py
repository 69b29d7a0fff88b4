"""Take orders for the proxy on a loopback port: a line of JSON each, answered by one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from pydantic import ValidationError

from lagbench.errors import NotReady
from lagbench.programs.tcp_proxy.orders import LOOPBACK, ProxyOrder, ProxyRefusal, ProxyState

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
