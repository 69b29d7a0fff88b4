"""Exchanges recorded with two real Iggy servers; access tokens in them are replaced."""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lag_scaler import iggy_wire as wire
from lag_scaler.iggy_wire import PlainLayout, ReplicaLayout

_FOLDER = Path(__file__).parents[1] / "data" / "iggy"
_FILES = {"0.8": "exchanges_0.8.0.json.gz", "0.9": "exchanges_0.9.0-edge.5.json.gz"}
VERSIONS = tuple(_FILES)


@dataclass(frozen=True)
class Exchange:
    """One request and all that the server sent back."""

    version: str
    name: str
    request: bytes
    response: bytes
    asked: dict[str, Any]  # the request's fields, decoded when it was recorded
    answered: dict[str, Any]

    @property
    def header_bytes(self) -> int:
        """Return the size of this layout's header."""
        return 8 if self.version == "0.8" else 256

    @property
    def payload(self) -> bytes:
        """Return the request behind its header."""
        return self.request[self.header_bytes :]

    @property
    def meaning(self) -> dict[str, Any]:
        """Return the decoded body; empty for an empty one."""
        body: dict[str, Any] = self.answered.get("body", {})
        return {} if body.get("empty") else body

    def layout(self) -> PlainLayout:
        """Return the layout of the client that was recorded, logged in as it was."""
        if self.version == "0.8":
            return PlainLayout()
        packed = self.asked["payload"].get("protocol_version", 11 << 10)
        layout = ReplicaLayout(
            bytes.fromhex(self.asked["client_hex"]),
            protocol=(packed >> 20, packed >> 10 & 1023, packed & 1023),
            client_name=self.asked["payload"].get("sdk_name", "lagbench"),
            client_version=self.asked["payload"].get("sdk_version", "0"),
        )
        session = self.asked["session"]
        layout.accept_login(wire.Reply(0, bytes(8) + session.to_bytes(8, "little")))
        return layout

    def reply(self) -> wire.Reply:
        """Return the response as the adapter reads it."""
        layout = self.layout()
        header = self.response[: layout.header_bytes]
        body = self.response[layout.header_bytes :]
        if layout.body_bytes(header) != len(body):
            raise AssertionError("the header's length is not that of the body")
        return layout.reply(header, body)


def exchanges(version: str) -> dict[str, Exchange]:
    """Return the recorded exchanges of one server by name."""
    recorded = json.loads(gzip.decompress((_FOLDER / _FILES[version]).read_bytes()))
    return {
        item["name"]: Exchange(
            version=version,
            name=item["name"],
            request=bytes.fromhex(item["request_hex"]),
            response=bytes.fromhex(item["response_hex"]),
            asked=(item["decoded"] or {}).get("request") or {},
            answered=_dict((item["decoded"] or {}).get("response")),
        )
        for item in recorded["exchanges"]
    }


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
