"""The client library of PyPI in a process of its own: ``read``, ``prepare`` or ``delete``.

``read`` prints as JSON what the library sees of a topic. ``prepare`` makes a topic of 4 partitions
with 10, 5, 0 and 1 messages, of which its group has processed 0..6, none, none and the one.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from apache_iggy import IggyClient, SendMessage

from lag_scaler import iggy_wire as wire

MESSAGES, STORED = (10, 5, 0, 1), {0: 6, 3: 0}
_LIMIT_SECONDS = 120.0


async def _read(client: IggyClient, stream: str, topic: str, group: str) -> dict[str, Any]:
    details = await client.get_topic(stream, topic)
    if details is None:
        raise SystemExit("no such topic")
    offsets = {}
    for partition in details.partitions:
        query = wire.offset_query(group, stream, topic, partition.id)
        body = await client.send_binary_request(wire.GET_CONSUMER_OFFSET, query)
        offsets[partition.id] = wire.parse_stored_offset(bytes(body), partition.id)
    return {
        "partitions": [
            [part.id, part.current_offset, part.messages_count] for part in details.partitions
        ],
        "stored": offsets,
    }


async def _prepare(client: IggyClient, stream: str, topic: str, group: str) -> dict[str, Any]:
    await client.create_stream(stream)
    await client.create_topic(stream, topic, len(MESSAGES))
    for partition, count in enumerate(MESSAGES):
        if count:
            messages = [SendMessage(f"message {number}") for number in range(count)]
            await client.send_messages(stream, topic, partition, messages)
    consumer = await client.consumer_group(group, stream, topic)  # joins: never in the scaler
    for partition, offset in STORED.items():
        await consumer.store_offset(offset, partition)
    return {}


async def _main(what: str, address: str, stream: str, topic: str, group: str) -> None:
    client = IggyClient(address)
    await client.connect()
    await client.login_user(os.environ["IGGY_USERNAME"], os.environ["IGGY_PASSWORD"])
    if what == "read":
        seen = await _read(client, stream, topic, group)
    elif what == "prepare":
        seen = await _prepare(client, stream, topic, group)
    else:
        await client.delete_stream(stream)
        seen = {}
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    exit_code = 1
    try:
        asyncio.run(asyncio.wait_for(_main(*sys.argv[1:6]), _LIMIT_SECONDS))
        exit_code = 0
    except (TimeoutError, RuntimeError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        sys.stderr.flush()
    os._exit(exit_code)  # an orderly end with a call under way is a SIGABRT or SIGSEGV
