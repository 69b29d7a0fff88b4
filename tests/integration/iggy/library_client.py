"""Logs in and reads a topic with the client library of PyPI; prints what it saw as JSON."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from apache_iggy import IggyClient

from lagbench.adapters import iggy_wire as wire


async def _read(address: str, stream: str, topic: str, group: str) -> dict[str, Any]:
    client = IggyClient.from_connection_string(f"iggy+tcp://iggy:iggy@{address}")
    await client.connect()
    details = await client.get_topic(stream, topic)
    if details is None:
        raise SystemExit("no such topic")
    offsets = {}
    for partition in details.partitions:
        query = wire.offset_query(group, stream, topic, partition.id)
        body = await client.send_binary_request(wire.GET_CONSUMER_OFFSET, query)
        stored = wire.parse_stored_offset(bytes(body))
        offsets[partition.id] = None if stored is None else stored.stored_offset
    return {
        "partitions": [
            [part.id, part.current_offset, part.messages_count] for part in details.partitions
        ],
        "stored": offsets,
    }


if __name__ == "__main__":
    seen = asyncio.run(asyncio.wait_for(_read(*sys.argv[1:5]), 20))
    sys.stdout.write(json.dumps(seen) + "\n")
    sys.stdout.flush()
    os._exit(0)  # the library's threads would abort an orderly end of the interpreter
