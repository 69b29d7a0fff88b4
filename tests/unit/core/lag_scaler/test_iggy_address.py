"""An Iggy server in a ScaledObject's metadata: address, login by reference, TLS."""

from __future__ import annotations

import pytest

from lagbench.core.lag_scaler.lag_clusters import IggyServer
from lagbench.core.lag_scaler.lag_metadata import InvalidMetadata, LagSettings, parse_lag_settings
from lagbench.core.lag_scaler.lag_source import GroupTopic

_NAMED = {
    "source": "iggy",
    "serverAddress": "iggy:8090",
    "streamId": "shop",
    "topicId": "orders",
    "consumerGroupId": "enrich",
}
_LOGIN = {"usernameFromEnv": "scaler", "passwordFromEnv": "very-secret"}


def _server(settings: LagSettings) -> IggyServer:
    if not isinstance(settings.source, IggyServer):
        raise TypeError(type(settings.source))
    return settings.source


def test_stream_topic_and_group_name_what_is_read() -> None:
    """The topic is written stream/topic; TLS is off unless asked for."""
    settings = parse_lag_settings({**_NAMED, **_LOGIN}, {"KAFKA_TLS": "enable"})

    assert settings.group_topic == GroupTopic("enrich", "shop/orders")
    assert _server(settings).server_address == "iggy:8090"
    assert not _server(settings).is_tls


@pytest.mark.parametrize("host", ["127.0.0.1\0.kafka.svc", "h ost", "evil?.kafka.svc"])
def test_a_host_that_a_client_could_read_otherwise_is_refused(host: str) -> None:
    """A zero byte ends a host's name in the resolver: the list of allowed ones has another one."""
    with pytest.raises(InvalidMetadata) as refused:
        parse_lag_settings(
            {**_NAMED, **_LOGIN, "serverAddress": f"{host}:8090"},
            allowed_servers=("*.kafka.svc:8090", "*"),
        )

    assert refused.value.field == "serverAddress"


def test_tls_takes_an_authority_by_reference() -> None:
    """``tls`` and ``caFromEnv`` of the object, or IGGY_TLS and IGGY_CA of the server."""
    own = parse_lag_settings({**_NAMED, **_LOGIN, "tls": "enable", "caFromEnv": "PEM"})
    default = parse_lag_settings(
        _NAMED,
        {
            "IGGY_ADDRESS": "iggy:8090",
            "IGGY_ACCESS_TOKEN": "very-secret",
            "IGGY_TLS": "enable",
            "IGGY_CA": "PEM",
        },
    )

    assert [(_server(item).is_tls, _server(item).ca) for item in (own, default)] == [
        (True, "PEM"),
        (True, "PEM"),
    ]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tls": "on"}, "tls"),
        ({"tls": "disable", "caFromEnv": "PEM"}, "tls"),
        ({"accessTokenFromEnv": "very-secret"}, "accessToken"),
        ({"passwordFromEnv": ""}, "password"),
        ({"password": "very-secret"}, "password"),
        ({"streamId": ""}, "streamId"),
    ],
)
def test_what_cannot_work_is_refused_without_the_secret(
    changes: dict[str, str], field: str
) -> None:
    """A password in clear text, two logins, half of one, a CA that TLS would not use."""
    with pytest.raises(InvalidMetadata) as refused:
        parse_lag_settings({**_NAMED, **_LOGIN, **changes})

    assert field in [problem.field for problem in refused.value.problems]
    assert "very-secret" not in str(refused.value)


@pytest.mark.parametrize("address", ["iggy:", "iggy:0", "iggy:65536", "tcp://iggy:8090", ":8090"])
def test_an_address_that_cannot_be_dialled_is_refused(address: str) -> None:
    """What no connection could use is rejected with its value, before anything is sampled."""
    with pytest.raises(InvalidMetadata) as refused:
        parse_lag_settings({**_NAMED, **_LOGIN, "serverAddress": address})

    (problem,) = refused.value.problems
    assert (problem.field, problem.value) == ("serverAddress", address)


def test_credentials_in_an_address_are_not_repeated() -> None:
    """What stands before an @ may be a password."""
    with pytest.raises(InvalidMetadata) as refused:
        parse_lag_settings({**_NAMED, **_LOGIN, "serverAddress": "root:very-secret@iggy"})

    assert "very-secret" not in str(refused.value)
