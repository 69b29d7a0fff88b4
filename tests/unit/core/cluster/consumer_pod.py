"""Read what the program of a workload's pods reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from lagbench.programs.consumer.consumer_settings import ConsumerOptions, parse_options

Options = TypeVar("Options")
POD = {"POD_NAME": "consumer-0", "POD_ORDINAL": "5", "_SPARK_AUTH_SECRET": "s"}


def options_of(manifest: dict[str, Any]) -> ConsumerOptions:
    """Return what a consumer's pod reads."""
    return read_by(parse_options, manifest)


def read_by(parse: Callable[..., Options], manifest: dict[str, Any]) -> Options:
    """Return what a program makes of its pod's arguments and variables."""
    container = container_of(manifest)
    environment = {
        e["name"]: e["value"].replace("$$", "$") for e in container["env"] if "value" in e
    }
    arguments = [one for one in container.get("args") or [] if one != "--kept=1"]
    return parse(arguments, environment | POD)


def document_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the run of a workload's pods sets."""
    texts = {one["name"]: one.get("value") for one in container_of(manifest)["env"]}
    found: dict[str, Any] = json.loads(texts["LAGBENCH_SETTINGS"])
    return found


def container_of(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the first container of a workload's pods."""
    container: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    return container
