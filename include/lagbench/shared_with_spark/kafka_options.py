"""The settings of a secured Kafka in the form of Spark's source, which uses Kafka's own client.

They come from the file of librdkafka's settings that every program of the bench has. The two
clients name TLS and SASL differently; this is the one place that maps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pod_program.kafka_config import CONFIG_VARIABLE, settings_of_file

_LOGIN = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_NO = ("false", "f", "0")


def spark_kafka_options(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the options of Spark's Kafka source; nothing if no file is named.

    :raises ValueError: the file has a setting that Spark cannot have.
    """
    path = environment.get(CONFIG_VARIABLE)
    if not path:
        return {}
    return java_options(settings_of_file(Path(path).read_text(encoding="utf-8")))


def java_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's TLS and SASL settings as options of Spark's Kafka source.

    :raises ValueError: Kafka's own client has no counterpart: the mechanism is none of PLAIN and
        SCRAM, certificates are not verified, or they are in a keystore.
    """
    found = {"security.protocol": settings.get("security.protocol", "plaintext").upper()}
    if "SASL" in found["security.protocol"]:
        found |= _sasl(settings)
    if "SSL" in found["security.protocol"]:
        found |= _tls(settings)
    return {f"kafka.{name}": value for name, value in found.items()}


def _sasl(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or ""
    if mechanism not in _LOGIN:
        raise ValueError(f"sasl.mechanism {mechanism!r}: Spark's reader takes {', '.join(_LOGIN)}")
    user, password = (
        _quoted(settings.get(f"sasl.{part}", "")) for part in ("username", "password")
    )
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{_LOGIN[mechanism]} required username={user} password={password};",
    }


def _tls(settings: Mapping[str, str]) -> dict[str, str]:
    if settings.get("enable.ssl.certificate.verification", "true").lower() in _NO:
        raise ValueError(
            "enable.ssl.certificate.verification: Spark's reader always verifies; name the "
            "authority in ssl.ca.location"
        )
    if "ssl.keystore.location" in settings:
        raise ValueError(
            "ssl.keystore.location: Spark's reader takes ssl.certificate.location and "
            "ssl.key.location"
        )
    found: dict[str, str] = {}
    if authority := _text(settings, "ssl.ca"):
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if certificate := _text(settings, "ssl.certificate"):
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": _text(settings, "ssl.key"),
        }
    if password := settings.get("ssl.key.password"):
        found["ssl.key.password"] = password
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        found["ssl.endpoint.identification.algorithm"] = ""
    return found


def _text(settings: Mapping[str, str], name: str) -> str:
    """Return a PEM text, given in the settings or in the file that they name."""
    if text := settings.get(f"{name}.pem"):
        return text
    path = settings.get(f"{name}.location")
    return Path(path).read_text(encoding="utf-8") if path else ""


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
