"""The fake server answers recorded requests with the recorded bytes of a real server."""

from __future__ import annotations

import pytest
from tests.fakes.iggy_answers import FakePartition, FakeTopic, IggyState
from tests.fakes.iggy_recordings import VERSIONS, Exchange, exchanges
from tests.fakes.iggy_server import FakeIggyServer, Session

# Set by a real server from what it has done before: cluster, replication numbers, client.
_OWN_BYTES = [*range(32, 48), *range(176, 192)]
_NOT_SERVED = {"get_stream", "get_stream_unknown", "store_offset_without_session"}


def recorded_state(version: str) -> IggyState:
    """Return the set-up of the recordings: 10, 5, 0 and 1 messages; stored 6 and 0."""
    recorded = exchanges(version)
    topic = recorded["get_topic"].meaning
    body = recorded["get_topic"].response
    # the options stand between the topic's name and its partitions
    end = len(body) - 40 * topic["partitions_count"]
    name_end = body.index(b"orders") + len(b"orders")
    state = IggyState(
        version=version,
        tokens={recorded["login_pat_ok"].asked["payload"]["token"]},
    )
    state.topics["shop", "orders"] = FakeTopic(
        partitions=[
            FakePartition(messages=part["messages_count"], size_bytes=part["size_bytes"])
            for part in topic["partitions"]
        ],
        groups={"enrich": {0: 6, 3: 0}},
        created_us=topic["created_at_us"],
        partitions_created_us=topic["partitions"][0]["created_at_us"],
        derived_options=body[name_end + 8 : end] if version == "0.9" else b"",
    )
    return state


def _served() -> list[Exchange]:
    return [
        exchange
        for version in VERSIONS
        for exchange in exchanges(version).values()
        if exchange.name not in _NOT_SERVED
        and not exchange.name.startswith(("cross_", "sdk_get_stream", "sdk_get_cluster"))
    ]


@pytest.mark.parametrize("exchange", _served(), ids=lambda item: f"{item.version}-{item.name}")
def test_the_fake_answers_what_the_real_server_answered(exchange: Exchange) -> None:
    """Reads and logins, right and wrong, of raw sockets and of the library, byte for byte."""
    state = recorded_state(exchange.version)
    if exchange.name == "get_consumer_group_one_member":
        state.topics["shop", "orders"].members["enrich"] = [[0, 1, 2, 3]]
    server = FakeIggyServer(state)
    unauthenticated = "unauthenticated" in exchange.name
    session = Session(is_logged_in=not unauthenticated)
    frames, rest = server.split(exchange.request)

    answered = b"".join(server.reply(frame, session) for frame in frames)

    masked = _OWN_BYTES if exchange.version == "0.9" else []
    if exchange.version == "0.9" and unauthenticated:
        masked = [*masked, *range(160, 176)]  # the server's own number for the connection
    if exchange.version == "0.9" and "login" in exchange.name:
        masked = [*masked, *range(264, 272)]  # session
    assert not rest
    assert _masked(answered, masked) == _masked(exchange.response, masked)


def test_the_fake_of_0_8_answers_a_0_9_ping_as_the_real_one() -> None:
    """Six errors of 8 bytes, then silence: the rest is waited for."""
    ping = exchanges("0.8")["cross_ping_0.9_framing_to_0.8_server"]
    server = FakeIggyServer(IggyState())
    frames, rest = server.split(ping.request)

    answered = b"".join(server.reply(frame, Session()) for frame in frames)

    assert answered == ping.response
    assert len(rest) == 256 - 48


def _masked(data: bytes, positions: list[int]) -> str:
    masked = bytearray(data)
    for position in positions:
        if position < len(masked):
            masked[position] = 0
    return masked.hex()
