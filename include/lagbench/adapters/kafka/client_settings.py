"""The settings of a Kafka client from a file: TLS, SASL, and whatever else librdkafka takes.

The file has librdkafka's names as ``name=value`` lines, or is a JSON object of them: an Airflow
connection's ``extra``, or the whole connection. Values may be secrets, so no error shows one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from lagbench.adapters.kafka.kafka_connections import spoken
from lagbench.errors import WrongInput
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

SERVERS = "bootstrap.servers"
_ALLOWED = (
    "librdkafka's settings: name=value lines, or a JSON object (the extra of a connection of type "
    "kafka)"
)


_ALLOWED_CONNECTION = f'JSON with conn_type kafka and extra {{"{SERVERS}": "host:port"}}'


def read_settings(path: Path) -> dict[str, str]:
    """Return the settings in a file, checked by librdkafka.

    :raises WrongInput: the file cannot be read, has another form, or librdkafka rejects a setting.
    """
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "no text"
        raise WrongInput(
            where=where, field="file", value=where, allowed=f"a file that can be read ({reason})"
        ) from error
    if text.lstrip().startswith("{"):
        found = settings_of_json(text, where=where, field="content")
    else:
        found = _of_lines(text, where)
    return checked(found, where=where)


def as_lines(settings: Mapping[str, str]) -> str:
    """Return settings in the form of a file.

    :raises WrongInput: a value has several lines, which the form cannot hold.
    """
    for name, value in settings.items():
        if "\n" in value.strip():
            raise WrongInput(
                where="Kafka settings",
                field=name,
                value="(several lines)",
                allowed=f"a file: {name.removesuffix('.pem')}.location instead of {name}",
            )
    return "".join(f"{name}={value.strip()}\n" for name, value in settings.items())


def own_settings(
    bootstrap_servers: str, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the settings of a program's clients: the servers, and the file that it was given.

    :param environment: the program's; ``CONFIG_VARIABLE`` names the file. None: this process's.
    """
    path = (os.environ if environment is None else environment).get(CONFIG_VARIABLE)
    return {**(_of_file(path) if path else {}), SERVERS: bootstrap_servers}


@cache
def _of_file(path: str) -> Mapping[str, str]:
    """Return the settings of a program's file, which does not change while it runs."""
    return read_settings(Path(path))


def checked(settings: Mapping[str, str], *, where: str) -> dict[str, str]:
    """Return the settings if librdkafka can make a client of them; it connects to nothing.

    :raises WrongInput: it cannot, for example because a file of them is missing.
    """
    try:
        AdminClient({"log_level": 0, **settings})
    except (KafkaException, TypeError, ValueError) as error:
        reason = spoken(error)
        for value in settings.values():
            if value and len(value) > 3:
                reason = reason.replace(value, "…")
        raise WrongInput(
            where=where, field="settings", value=", ".join(sorted(settings)), allowed=reason
        ) from error
    return dict(settings)


def _of_lines(text: str, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise WrongInput(
                where=where, field=f"line {number}", value=name.strip()[:40], allowed=_ALLOWED
            )
        found[name.strip()] = value.strip()
    return found


def settings_of_json(
    text: str, *, where: str, field: str, is_connection: bool = False
) -> dict[str, str]:
    """Return the settings in a JSON object: an Airflow connection, or the ``extra`` of one.

    :param is_connection: only a whole connection is allowed, with the servers in its extra.
    :raises WrongInput: it names ``where`` and ``field``, and no value.
    """
    allowed = _ALLOWED_CONNECTION if is_connection else _ALLOWED
    refused = WrongInput(where=where, field=field, value="(hidden)", allowed=allowed)
    try:
        found: Any = json.loads(text)
        extra = (found.get("extra") or {}) if is_connection else found.get("extra", found)
        extra = json.loads(extra) if isinstance(extra, str) else extra
        settings = {str(name): _text(value) for name, value in extra.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise refused from error
    if is_connection and not settings.get(SERVERS):
        raise refused
    return settings


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
