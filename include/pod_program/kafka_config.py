"""Settings of a Kafka client from a file or from a stated login; no client is imported.

The file has librdkafka's names as ``name=value`` lines, or is a JSON object of them: an Airflow
connection's ``extra``, or the whole connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

CONFIG_VARIABLE = "LAGBENCH_KAFKA_CONFIG"
"""Names the file with the settings of every Kafka client of a program."""

PASSWORD_MECHANISMS: Mapping[str, str] = {
    "plaintext": "PLAIN",
    "scram_sha256": "SCRAM-SHA-256",
    "scram_sha512": "SCRAM-SHA-512",
}
"""KEDA's name of a mechanism -> the one of SASL."""


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


def login_settings(
    *,
    is_tls: bool,
    skips_verification: bool = False,
    pem: Mapping[str, str] | None = None,
    sasl: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the settings of a connection with or without TLS and a login.

    :param pem: ``ca``, ``certificate`` and ``key`` as PEM texts, and the key's ``password``.
    :param sasl: the settings of the mechanism, without the prefix ``sasl.``.
    """
    names = {
        "ca": "ssl.ca.pem",
        "certificate": "ssl.certificate.pem",
        "key": "ssl.key.pem",
        "password": "ssl.key.password",
    }
    protocol = f"{'sasl_' if sasl else ''}{'ssl' if is_tls else 'plaintext'}"
    found: dict[str, object] = {"security.protocol": protocol}
    if is_tls:
        found |= {names[part]: text for part, text in (pem or {}).items() if text}
        if skips_verification:
            found["enable.ssl.certificate.verification"] = False
            found["ssl.endpoint.identification.algorithm"] = "none"
    return found | {f"sasl.{name}": value for name, value in (sasl or {}).items()}


def password_login(mechanism: str, username: str, password: str) -> dict[str, object]:
    """Return the ``sasl`` of a login by password; ``mechanism`` is one of KEDA's names."""
    named = PASSWORD_MECHANISMS[mechanism]
    return {"mechanism": named, "username": username, "password": password}
