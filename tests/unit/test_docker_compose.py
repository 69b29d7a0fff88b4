"""The compose file starts nothing unasked, pins its images and holds no secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def _services() -> dict[str, Any]:
    parsed: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
    services: dict[str, Any] = parsed["services"]
    return services


def test_the_iggy_server_is_pinned_checked_and_only_there_on_request() -> None:
    """Profile iggy, a fixed version, a health check, and a port on loopback."""
    iggy = _services()["iggy"]

    assert iggy["profiles"] == ["iggy"]
    assert iggy["image"] == "apache/iggy:${IGGY_VERSION:-0.8.0}"
    assert iggy["healthcheck"]["test"][-1] == "ping"
    assert [port.split(":")[0] for port in iggy["ports"]] == ["127.0.0.1"]


def test_passwords_come_from_the_environment() -> None:
    """No password has a value in the compose file or in the example beside it."""
    passwords = [
        value
        for service in _services().values()
        for name, value in service.get("environment", {}).items()
        if "PASSWORD" in name
    ]
    example = (ROOT / ".env.example").read_text().splitlines()

    assert passwords
    assert all(value.startswith("${") and ":?" in value for value in passwords)
    assert "IGGY_PASSWORD=" in example
