"""Read the pods of a workload's manifest."""

from __future__ import annotations

from typing import Any

from lagbench.programs.consumer.settings import ConsumerOptions, parse_options


def options_of(manifest: dict[str, Any]) -> ConsumerOptions:
    """Return what a pod of the Deployment reads."""
    container = container_of(manifest)
    environment = {e["name"]: e["value"] for e in container["env"] if "value" in e}
    return parse_options(container["args"], environment | {"POD_NAME": "consumer-0"})


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the first container of a workload's pods."""
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container
