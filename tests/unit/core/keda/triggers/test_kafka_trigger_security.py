"""TLS and SASL of the kafka trigger: secrets stay hidden, and KEDA's order of rules."""

import pytest

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.kafka import KafkaTrigger, parse_kafka_trigger

REQUIRED = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}
SCRAM = {"sasl": "scram_sha512", "username": "u", "password": "p-secret"}


def kafka(auth: dict[str, str], **metadata: str) -> KafkaTrigger:
    """Return a trigger whose TriggerAuthentication holds ``auth``."""
    return parse_kafka_trigger({**REQUIRED, **metadata}, auth=auth)


def said_of(auth: dict[str, str], **metadata: str) -> str:
    """Return KEDA's reason for refusing."""
    with pytest.raises(TriggerRefused) as caught:
        kafka(auth, **metadata)
    return caught.value.keda_message


def test_secrets_are_read_and_do_not_show() -> None:
    """Values of a TriggerAuthentication are there for the client, and not in the repr."""
    pair = {"tls": "enable", "ca": "ca-secret", "cert": "c-secret", "key": "k-secret"}

    security = kafka({**SCRAM, **pair, "keyPassword": "kp-secret"}).security

    assert security.password is not None
    assert security.password.get_secret_value() == "p-secret"
    assert security.key_password is not None
    assert (security.is_tls, security.sasl, security.username) == (True, "scram_sha512", "u")
    assert "secret" not in repr(security)


@pytest.mark.parametrize(
    ("auth", "named"),
    [
        ({"tls": "enable", "cert": "c"}, "key"),
        ({"tls": "enable", "key": "k"}, "cert"),
        ({"tls": "enable", "key": "k", "sasl": "plaintext"}, "cert"),
        ({"sasl": "plaintext"}, "username"),
        ({"sasl": "scram_sha256", "username": "u"}, "password"),
        ({"sasl": "oauthbearer", "username": "u", "password": "p"}, "oauth token endpoint"),
        ({"sasl": "gssapi", "username": "u", "password": "p", "keytab": "k"}, "'keytab'"),
    ],
)
def test_what_keda_refuses(auth: dict[str, str], named: str) -> None:
    """TLS comes before SASL, the user before the password."""
    assert named in said_of(auth)


def test_certificates_count_only_with_tls() -> None:
    """Without TLS a lonely certificate is no error, as in KEDA."""
    assert not kafka({"cert": "c"}).security.is_tls


def test_the_trigger_wins_over_the_authentication() -> None:
    """A value in the trigger is looked at first."""
    assert kafka({"tls": "enable"}, tls="disable").security.is_tls is False


def test_a_wrong_value_out_of_a_secret_is_not_repeated() -> None:
    """The reason names the parameter but not what the secret holds; KEDA prints it."""
    said = said_of({"sasl": "hunter2", "kerberosDisableFAST": "hunter3"})

    assert '"sasl"' in said
    assert "hunter" not in said
    assert '"hunter2"' in said_of({}, sasl="hunter2")


def test_the_rules_wait_for_the_authentication() -> None:
    """While the secrets are not known, only what does not hang on them is checked."""
    metadata = {**REQUIRED, "sasl": "plaintext"}

    waiting = parse_kafka_trigger(metadata, is_auth_known=False)

    assert waiting.security.sasl == "plaintext"
    with pytest.raises(TriggerRefused, match="lagThreshold"):
        parse_kafka_trigger({**metadata, "lagThreshold": "0"}, is_auth_known=False)
