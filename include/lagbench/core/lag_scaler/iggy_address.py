"""Parse the address of an Iggy server: host, host:port or [v6]:port."""

from __future__ import annotations

import re

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")
"""No zero byte or blank: a client could connect to a host that no list of allowed ones has."""
DEFAULT_PORT = 8090  # the default TCP port of an Iggy server
ALLOWED_ADDRESS = (
    "host:port (port 1 to 65535) without scheme and credentials, for example iggy:8090"
)


def split_iggy_address(text: str) -> tuple[str, int] | None:
    """Return (host, port); None if it is not an address."""
    if "@" in text or "/" in text:
        return None
    host, port = text, str(DEFAULT_PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest:
            port = rest.removeprefix(":") if rest.startswith(":") else "?"
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    is_port = port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535
    return (host, int(port)) if _HOST.fullmatch(host) and is_port else None


def shown_address(text: str) -> str:
    """Return an address for a message; hidden with an @, because a password may precede it."""
    return "(hidden)" if "@" in text else text
