"""KEDA's security parameters as librdkafka's settings."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from lagbench.adapters.kafka.kafka_security import security_settings
from lagbench.core.keda.triggers.kafka import KafkaSecurity
from lagbench.errors import NotReady


def test_without_security_the_connection_is_plain() -> None:
    """Nothing but the protocol is set."""
    assert security_settings(KafkaSecurity()) == {"security.protocol": "plaintext"}


def test_tls_takes_pem_texts_and_leaves_out_what_is_not_given() -> None:
    """The private key and its password are passed on as they are."""
    security = KafkaSecurity(
        tls="enable", ca=SecretStr("CA"), key=SecretStr("KEY"), key_password=SecretStr("pw")
    )

    assert security_settings(security) == {
        "security.protocol": "ssl",
        "ssl.ca.pem": "CA",
        "ssl.key.pem": "KEY",
        "ssl.key.password": "pw",
    }


def test_unsafe_ssl_checks_neither_the_chain_nor_the_name() -> None:
    """As KEDA's unsafeSsl."""
    settings = security_settings(KafkaSecurity(tls="enable", skips_verification=True))

    assert settings["enable.ssl.certificate.verification"] is False
    assert settings["ssl.endpoint.identification.algorithm"] == "none"


@pytest.mark.parametrize(
    ("sasl", "mechanism"),
    [
        ("plaintext", "PLAIN"),
        ("scram_sha256", "SCRAM-SHA-256"),
        ("scram_sha512", "SCRAM-SHA-512"),
    ],
)
@pytest.mark.parametrize("is_tls", [False, True])
def test_a_login_goes_over_the_connection_that_is_there(
    sasl: str, mechanism: str, *, is_tls: bool
) -> None:
    """SASL with and without TLS are protocols of their own."""
    security = KafkaSecurity(
        tls="enable" if is_tls else "disable", sasl=sasl, username="u", password=SecretStr("p")
    )

    settings = security_settings(security)

    assert settings["security.protocol"] == ("sasl_ssl" if is_tls else "sasl_plaintext")
    assert (settings["sasl.mechanism"], settings["sasl.username"], settings["sasl.password"]) == (
        mechanism,
        "u",
        "p",
    )


def test_a_bearer_token_is_fetched_from_the_given_endpoint() -> None:
    """The login of the trigger is the client of the token endpoint."""
    security = KafkaSecurity(
        sasl="oauthbearer",
        username="id",
        password=SecretStr("s"),
        token_endpoint="https://token",  # noqa: S106 - an address
        scopes=("a", "b"),
        extensions="k=v",
    )

    settings = security_settings(security)

    assert settings["sasl.oauthbearer.token.endpoint.url"] == "https://token"
    assert settings["sasl.oauthbearer.scope"] == "a b"
    assert settings["sasl.oauthbearer.client.secret"] == "s"


def test_kerberos_and_aws_are_refused_by_name() -> None:
    """A mechanism that the packaged client lacks is reported, with those that it has."""
    with pytest.raises(NotReady, match="gssapi"):
        security_settings(KafkaSecurity(sasl="gssapi"))
    with pytest.raises(NotReady, match="oauthbearer"):
        security_settings(KafkaSecurity(sasl="oauthbearer", token_provider="aws_msk_iam"))  # noqa: S106 - a provider
