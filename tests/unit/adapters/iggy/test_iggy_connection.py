"""A connection names one way to log in, a usable address, and never shows its secrets."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.adapters.iggy.iggy_connection import IggyConnection
from lagbench.errors import WrongInput

_LOGIN = {"username": "scaler", "password": "very-secret"}


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("iggy", ("iggy", 8090)),
        ("iggy.prod:9000", ("iggy.prod", 9000)),
        ("[::1]:9000", ("::1", 9000)),
        ("[::1]", ("::1", 8090)),
        ("::1", ("::1", 8090)),
    ],
)
def test_an_address_is_a_host_and_maybe_a_port(text: str, address: tuple[str, int]) -> None:
    """8090 is the port that is not named."""
    assert IggyConnection(server_address=text, **_LOGIN).address == address


@pytest.mark.parametrize("text", ["iggy:", "iggy:0", "iggy:65536", ":8090", "[::1]x", "tcp://a:1"])
def test_an_unusable_address_is_refused_with_what_is_allowed(text: str) -> None:
    """The message has field, value and an example."""
    with pytest.raises(WrongInput, match="host:port") as wrong:
        IggyConnection(server_address=text, **_LOGIN)

    assert (wrong.value.field, wrong.value.value) == ("serverAddress", text)


def test_credentials_in_the_address_are_refused_and_not_repeated() -> None:
    """A password pasted into the address does not reach the message."""
    with pytest.raises(WrongInput) as wrong:
        IggyConnection(server_address="iggy://root:very-secret@iggy:8090", **_LOGIN)

    assert "very-secret" not in str(wrong.value)


@pytest.mark.parametrize(
    ("credentials", "field"),
    [
        ({}, "credentials"),
        ({**_LOGIN, "access_token": "t"}, "credentials"),
        ({"username": "scaler", "access_token": "t"}, "credentials"),
        ({"username": "scaler"}, "password"),
        ({"password": "very-secret"}, "username"),
        ({"username": "scaler", "password": "very-secret" * 30}, "password"),
        ({"access_token": "very-secret" * 30}, "accessToken"),
        ({**_LOGIN, "tls_ca_file": "/ca.pem"}, "tls"),
    ],
)
def test_one_whole_way_to_log_in_is_needed(credentials: dict[str, Any], field: str) -> None:
    """User and password, or a token; both, halves and none are rejected without the secret."""
    with pytest.raises(WrongInput) as wrong:
        IggyConnection(server_address="iggy", **credentials)

    assert wrong.value.field == field
    assert "very-secret" not in str(wrong.value)


def test_secrets_are_in_no_text_of_a_connection() -> None:
    """Neither repr nor JSON shows password or token."""
    by_user = IggyConnection(server_address="iggy", **_LOGIN)
    by_token = IggyConnection(server_address="iggy", access_token="very-secret")  # noqa: S106

    texts = [repr(by_user), str(by_user), by_user.model_dump_json(), repr(by_token)]

    assert not [text for text in texts if "very-secret" in text]


def test_equal_connections_can_share_a_socket() -> None:
    """A connection is a key: the same server, user and secret are the same connection."""
    first = IggyConnection(server_address="iggy", **_LOGIN)
    second = IggyConnection(server_address="iggy", **_LOGIN)
    other = IggyConnection(server_address="iggy", username="scaler", password="x")  # noqa: S106

    assert len({first, second, other}) == 2
