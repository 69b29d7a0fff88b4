"""The file with the settings of a Kafka client.

It has librdkafka's names as ``name=value`` lines, or is a JSON object of them: an Airflow
connection's ``extra``, or the whole connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

CONFIG_VARIABLE = "LAGBENCH_KAFKA_CONFIG"
"""Names the file with the settings of every Kafka client of a program."""


def settings_of_file(text: str) -> dict[str, str]:
    """Return librdkafka's settings in a file: lines, or a JSON object or Airflow connection.

    :raises ValueError: it has another form; its text is the place, ``content`` or ``line N``.
    """
    if not text.lstrip().startswith("{"):
        return _settings_of_lines(text)
    try:
        found = json.loads(text)
        return settings_of_extra(found.get("extra", found))
    except ValueError as error:
        raise ValueError("content") from error


def settings_of_extra(extra: object) -> dict[str, str]:
    """Return the settings in the ``extra`` of an Airflow connection: an object, or its text.

    :raises ValueError: it has another form.
    """
    found = json.loads(extra) if isinstance(extra, str) else extra
    if not isinstance(found, Mapping):
        raise ValueError("extra")  # noqa: TRY004 - a wrong text, whose types are not the caller's
    return {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in found.items()
    }


def _settings_of_lines(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise ValueError(f"line {number}")
        found[name.strip()] = value.strip()
    return found
