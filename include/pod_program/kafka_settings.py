"""The settings of a Kafka client: TLS, SASL, and whatever else librdkafka takes.

Values may be secrets, so no error shows one.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pod_program.errors import WrongInput, cannot_read
from pod_program.kafka_config import CONFIG_VARIABLE, settings_of_extra, settings_of_file
from pod_program.shown import HIDDEN

SERVERS = "bootstrap.servers"
_ALLOWED = (
    "librdkafka's settings: name=value lines, or a JSON object (the extra of a connection of type "
    "kafka)"
)


_REACHES_FURTHER: Mapping[str, str] = {
    "plugin.library.paths": "loads a library",
    "ssl.engine.location": "loads a library",
    "ssl.engine.id": "loads a library",
    "ssl.providers": "loads a library",
    "sasl.kerberos.kinit.cmd": "runs a command",
    "sasl.oauthbearer.assertion.file": "sends a file to a server",
    "sasl.oauthbearer.assertion.jwt.template.file": "sends a file to a server",
}
"""Of librdkafka 2.16.1: who may name the Kafka need not have the rights of this process."""
_ALLOWED_CONNECTION = f'JSON with conn_type kafka and extra {{"{SERVERS}": "host:port"}}'


RECOVERY: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
}
"""For each client that must outlive an outage; partitions added during a run are seen, too."""

# librdkafka prints each refused connection to standard error; the errors raised here say it once.
SILENT = logging.getLogger("lagbench.librdkafka")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings in a file, checked by librdkafka."""
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error if isinstance(error, OSError) else "it is not text"
        raise cannot_read(where, reason) from error
    try:
        found = settings_of_file(text)
    except ValueError as error:
        raise WrongInput(where=where, field=str(error), value=HIDDEN, allowed=_ALLOWED) from error
    return checked(found, where=where)


def as_lines(settings: Mapping[str, str]) -> str:
    """Return settings in the form of a file."""
    for name, value in settings.items():
        if "\n" in value.strip():
            allowed = f"a file: {name.removesuffix('.pem')}.location instead of {name}"
            where = "Kafka settings"
            raise WrongInput(where=where, field=name, value="(several lines)", allowed=allowed)
    return "".join(f"{name}={value.strip()}\n" for name, value in settings.items())


def own_settings(
    bootstrap_servers: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of a program's clients: the servers, and the file that it was given.

    :param environment: the program's; ``CONFIG_VARIABLE`` names the file. None: this process's.
    """
    path = (os.environ if environment is None else environment).get(CONFIG_VARIABLE)
    return {**(_of_file(path) if path else {}), SERVERS: bootstrap_servers}


def without_foreign_file(
    bootstrap_servers: str, environment: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the environment; without its file of settings if that is of another Kafka."""
    path = environment.get(CONFIG_VARIABLE)
    named = _of_file(path).get(SERVERS) if path else None
    if named is None or _servers(named) == _servers(bootstrap_servers):
        return environment
    return {name: value for name, value in environment.items() if name != CONFIG_VARIABLE}


def _servers(text: str) -> set[str]:
    return {server.strip() for server in text.split(",") if server.strip()}


@cache
def _of_file(path: str) -> Mapping[str, str]:
    """Return the settings of a program's file, which does not change while it runs."""
    return read_settings(Path(path))


def refuse_code(settings: Mapping[str, object], *, where: str) -> None:
    """Reject settings by which a client does more than to connect."""
    for name in sorted(_REACHES_FURTHER.keys() & settings.keys()):
        allowed = f"no such setting, because it {_REACHES_FURTHER[name]}"
        raise WrongInput(where=where, field=name, value=HIDDEN, allowed=allowed)


def checked(settings: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return the settings if librdkafka can make a client of them; it connects to nothing."""
    refuse_code(settings, where=where)
    try:
        AdminClient({"log_level": 0, **settings})
    except (AttributeError, KafkaException, TypeError, ValueError) as error:
        reason = spoken(error)
        for value in settings.values():
            if value and len(value) > 3:
                reason = reason.replace(value, "…")
        raise WrongInput(
            where=where, field="settings", value=", ".join(sorted(settings)), allowed=reason
        ) from error
    return dict(settings)


def settings_of_connection(text: str, *, where: str, field: str) -> dict[str, str]:
    """Return the settings in an Airflow connection as JSON, with the servers in its extra."""
    refused = WrongInput(where=where, field=field, value=HIDDEN, allowed=_ALLOWED_CONNECTION)
    try:
        settings = settings_of_extra(json.loads(text).get("extra") or {})
    except (ValueError, AttributeError) as error:
        raise refused from error
    if not settings.get(SERVERS):
        raise refused
    refuse_code(settings, where=f"{where}: {field}")
    return settings


def spoken(error: Exception) -> str:
    """Return an error's reason as librdkafka words it, without the settings it was given."""
    reason = error.args[0] if error.args else error
    return str(reason.str() if hasattr(reason, "str") else reason)
