"""Values of a kafka trigger with which its client never connects, or finds no topic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.keda.triggers.container_variables import is_unknown
from lagbench.core.keda.triggers.trigger_type import Remark

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_HOST = re.compile(r"[A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\]")
_SCHEME = re.compile(r"^[A-Za-z_]+://")
_HIGHEST_PORT = 65_535
_DEFAULT_PORT = 9092


def kafka_remarks(trigger: Any, metadata: Mapping[str, str]) -> Iterator[Remark]:
    """Yield the servers that cannot be dialled, and a topic that cannot exist."""
    yield from _servers(trigger.bootstrap_servers, metadata)
    topic = trigger.topic
    if not topic or is_unknown(topic) or (_TOPIC.fullmatch(topic) and topic not in {".", ".."}):
        return
    yield Remark(
        "broken",
        "topic-impossible",
        *_written("topic", metadata),
        "no topic can have this name (letters, digits, '.', '_' and '-', at most 249 characters): "
        "KEDA reads one topic for each trigger, and no pattern",
        "one trigger for each topic, or no topic: then all topics of the group count",
    )


def _servers(servers: tuple[str, ...], metadata: Mapping[str, str]) -> Iterator[Remark]:
    problems = {
        server: problem
        for server in servers
        if not is_unknown(server) and (problem := address_problem(server)) is not None
    }
    if not problems:
        return
    is_none_left = len(problems) == len(servers)
    name, value = _written("bootstrapServers", metadata)
    said = "; ".join(problems.values()) if name == "bootstrapServers" else "a wrong address"
    effect = "the client never connects" if is_none_left else "the client skips it"
    yield Remark(
        "broken" if is_none_left else "warning",
        "server-address",
        name,
        value,
        f"{said}: {effect}",
        ",".join(map(_repaired, servers)) if name == "bootstrapServers" else "HOST:PORT",
    )


def _written(name: str, metadata: Mapping[str, str]) -> tuple[str, str]:
    """Return the key that gives a parameter, and its value; a variable's own is not shown."""
    key = name if (metadata.get(name) or "").strip() else f"{name}FromEnv"
    return key, str(metadata.get(key) or "")


def address_problem(address: str) -> str | None:
    """Return what Go says of an address that it cannot dial; None: it can be one."""
    host, colon, port = address.rpartition(":")
    if not colon or (address.startswith("[") and address.endswith("]")):
        return f"address {address}: missing port in address"
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        return f"address {address}: too many colons in address"
    if not _HOST.fullmatch(host):
        return f"lookup {host}: no such host"
    if not re.fullmatch(r"[0-9]+", port):
        return f"lookup tcp/{port}: unknown port"
    return None if 0 < int(port) <= _HIGHEST_PORT else f"address {port}: invalid port"


def _repaired(server: str) -> str:
    """Return a list of servers as KEDA reads it, with Kafka's port where there is none."""
    plain = (_SCHEME.sub("", piece.strip()) for piece in re.split(r"[;\s]+", server.strip()))
    return ",".join(
        piece
        if address_problem(piece) is None
        else f"{piece.partition(':')[0] or 'HOST'}:{_DEFAULT_PORT}"
        for piece in plain
        if piece
    )
