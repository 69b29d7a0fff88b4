"""TLS and SASL settings of a Kafka client, from a trigger's resolved security parameters."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import SecretStr

from lagbench.core.keda.triggers.kafka import KafkaSecurity
from lagbench.errors import NotReady

# KEDA's name of a mechanism -> the one of SASL.
_PASSWORD_MECHANISMS: Mapping[str, str] = {
    "plaintext": "PLAIN",
    "scram_sha256": "SCRAM-SHA-256",
    "scram_sha512": "SCRAM-SHA-512",
}


def security_settings(security: KafkaSecurity) -> dict[str, object]:
    """Return librdkafka's settings; they hold secrets, so they are passed on and never shown."""
    protocol = ("sasl_" if security.sasl != "none" else "") + (
        "ssl" if security.is_tls else "plaintext"
    )
    settings: dict[str, object] = {"security.protocol": protocol}
    if security.is_tls:
        settings |= _tls(security)
    if security.sasl != "none":
        settings |= _sasl(security)
    return settings


def _tls(security: KafkaSecurity) -> dict[str, object]:
    given = {
        "ssl.ca.pem": _revealed(security.ca),
        "ssl.certificate.pem": _revealed(security.cert),
        "ssl.key.pem": _revealed(security.key),
        "ssl.key.password": _revealed(security.key_password),
    }
    settings: dict[str, object] = {name: value for name, value in given.items() if value}
    if security.skips_verification:
        settings["enable.ssl.certificate.verification"] = False
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return settings


def _sasl(security: KafkaSecurity) -> dict[str, object]:
    mechanism = _PASSWORD_MECHANISMS.get(security.sasl)
    if mechanism is not None:
        return {
            "sasl.mechanism": mechanism,
            "sasl.username": security.username,
            "sasl.password": _revealed(security.password),
        }
    if security.sasl == "oauthbearer" and security.token_provider == "bearer":  # noqa: S105 - a provider's name
        return {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": security.username,
            "sasl.oauthbearer.client.secret": _revealed(security.password),
            "sasl.oauthbearer.token.endpoint.url": security.token_endpoint,
            "sasl.oauthbearer.scope": " ".join(security.scopes),
            "sasl.oauthbearer.extensions": security.extensions,
        }
    raise NotReady(
        f"a Kafka client with sasl {security.sasl} cannot be created here: the packaged librdkafka "
        "has neither Kerberos nor AWS signing. Use plaintext, scram_sha256, scram_sha512 or "
        "oauthbearer with a bearer token endpoint"
    )


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()
