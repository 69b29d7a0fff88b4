"""The external triggers: what is sent to the server, and how the connection is made."""

import pytest

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.external import ExternalTrigger, parse_external_trigger

ADDRESS = {"scalerAddress": "scaler:6000"}


def external(
    metadata: dict[str, str] | None = None,
    *,
    auth: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
) -> ExternalTrigger:
    """Return a trigger with an address and what else is given."""
    return parse_external_trigger(
        {**ADDRESS, **(metadata or {})}, is_push=False, auth=auth, environment=environment
    )


def test_the_server_gets_all_metadata_and_the_values_of_variables() -> None:
    """A ``FromEnv`` key keeps its name and carries the value; unset and empty ones are left out."""
    metadata = {"topic": "t", "userFromEnv": "USER", "goneFromEnv": "GONE", "emptyFromEnv": "EMPTY"}

    trigger = external(metadata, environment={"USER": "u", "EMPTY": "", "OTHER": "x"})

    assert trigger.metadata == {**ADDRESS, "topic": "t", "userFromEnv": "u"}
    assert trigger.metric_name(2) == "s2-"


@pytest.mark.parametrize(
    ("metadata", "auth", "uses_tls"),
    [
        ({}, {}, False),
        ({"enableTLS": "true"}, {}, True),
        ({}, {"caCert": "ca"}, True),
        ({}, {"tlsClientCert": "c", "tlsClientKey": "k"}, True),
        ({}, {"tlsClientCert": "c"}, False),
        ({"unsafeSsl": "true"}, {}, False),
    ],
)
def test_when_the_connection_is_encrypted(
    metadata: dict[str, str], auth: dict[str, str], uses_tls: bool
) -> None:
    """It is when asked for, with a CA, and with a whole client pair."""
    assert external(metadata, auth=auth).uses_tls == uses_tls


def test_secrets_do_not_show() -> None:
    """Neither keys nor resolved variables are in the repr."""
    trigger = external(
        {"passwordFromEnv": "PASSWORD"},
        auth={"tlsClientKey": "k-secret", "tlsClientCert": "c-secret", "caCert": "ca-secret"},
        environment={"PASSWORD": "p-secret"},
    )

    assert "secret" not in repr(trigger)
    assert trigger.tls_client_key is not None
    assert trigger.tls_client_key.get_secret_value() == "k-secret"


@pytest.mark.parametrize("metadata", [{"scalerAddress": ""}, {"enableTLS": "yes"}])
def test_what_keda_refuses(metadata: dict[str, str]) -> None:
    """Only a missing address and booleans that are none are rejected."""
    with pytest.raises(TriggerRefused):
        external(metadata)
