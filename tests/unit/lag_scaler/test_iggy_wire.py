"""Every frame is what real clients and servers of both layouts have put on the wire."""

from __future__ import annotations

import pytest
from tests.fakes.iggy_recordings import VERSIONS, Exchange, exchanges

from lag_scaler import iggy_wire as wire
from lag_scaler.iggy_wire import PlainLayout, ReplicaLayout, is_plain_answer

_ALL = {version: exchanges(version) for version in VERSIONS}
_NOT_OURS = {
    "login_without_version_prefix",  # we always send the prefix
    "store_offset_without_session",  # a write: nothing here stores an offset
}


def _ids(exchange: Exchange) -> str:
    return f"{exchange.version}-{exchange.name}"


def _is_login(exchange: Exchange) -> bool:
    return "login" in exchange.name


def _recorded(*, logins: bool) -> list[Exchange]:
    return [
        exchange
        for exchanges_of_one in _ALL.values()
        for exchange in exchanges_of_one.values()
        if _is_login(exchange) == logins
        and exchange.name not in _NOT_OURS
        and not exchange.name.startswith("cross_")
        # the libraries send a version and a checksum with their login
        and not (logins and exchange.name.startswith("sdk_"))
    ]


@pytest.mark.parametrize("exchange", _recorded(logins=False), ids=_ids)
def test_a_read_is_the_recorded_frame_byte_for_byte(exchange: Exchange) -> None:
    """Header and payload of each recorded read, of raw sockets and of the library, come out."""
    asked, layout = exchange.asked["payload"], exchange.layout()
    code = exchange.asked["command_code"]
    names = [asked[what]["value"] for what in ("stream", "topic", "group") if what in asked]
    payload = wire.idents(*names)
    if code == wire.GET_CONSUMER_OFFSET:
        group = asked["consumer"]["value"]
        payload = wire.offset_query(group, names[0], names[1], asked["partition_id"])
        if not asked["partition_flag"]:  # recorded to see what it does; never sent
            payload = exchange.payload

    frame = layout.request(code, payload)

    assert frame.hex() == exchange.request.hex()


@pytest.mark.parametrize("exchange", _recorded(logins=True), ids=_ids)
def test_a_login_is_the_recorded_frame_byte_for_byte(exchange: Exchange) -> None:
    """Password and access token, right and wrong ones, in both layouts."""
    asked, layout = exchange.asked["payload"], exchange.layout()

    if "token" in asked:
        frame = layout.login_by_token(asked["token"])
    else:
        frame = layout.login_by_password(asked["username"], asked["password"])

    assert frame.hex() == exchange.request.hex()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["login_user_ok", "login_pat_ok"])
def test_an_accepted_login_opens_a_session(version: str, kind: str) -> None:
    """0.9 requests carry the session of the reply from then on; 0.8 ones have none."""
    exchange = _ALL[version][kind]
    layout = exchange.layout()

    layout.accept_login(exchange.reply())

    frame = layout.request(wire.PING, b"")
    if version == "0.9":
        assert int.from_bytes(frame[184:192], "little") == exchange.meaning["session"]
    else:
        assert frame == bytes([4, 0, 0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("version", "name", "status"),
    [
        ("0.8", "login_user_wrong_password", 42),
        ("0.8", "login_user_unknown_user", 42),
        ("0.8", "login_user_short_password", 44),
        ("0.8", "login_pat_wrong_token", 20),
        ("0.9", "login_user_wrong_password", 9),
        ("0.9", "login_user_unknown_user", 9),
        ("0.9", "login_user_short_password", 9),
        ("0.9", "login_pat_wrong_token", 10),
        ("0.9", "login_incompatible_protocol", 14),
        ("0.9", "login_without_version_prefix", 15),
    ],
)
def test_a_refused_login_is_an_error_with_the_servers_code(
    version: str, name: str, status: int
) -> None:
    """Status of 0.8 and eviction of 0.9 become one error; a wrong protocol has the right one."""
    exchange = _ALL[version][name]

    with pytest.raises(wire.IggyRefused) as refused:
        exchange.layout().accept_login(exchange.reply())

    assert refused.value.status == status
    assert ("0.11.0 to 0.11.0" in str(refused.value)) is (status == 14)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_recorded_topic_shows_full_empty_and_one_message_partitions(version: str) -> None:
    """An empty partition and one with one message both show offset 0; the counts differ."""
    exchange = _ALL[version]["get_topic"]

    states = exchange.layout().parse_topic(exchange.reply().ok_body())

    assert [(state.number, state.current_offset, state.messages_count) for state in states] == [
        (0, 9, 10),
        (1, 4, 5),
        (2, 0, 0),
        (3, 0, 1),
    ]
    assert len(states) == exchange.meaning["partitions_count"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("get_consumer_offset_p0", 6),
        ("get_consumer_offset_p0_pat_session", 6),
        ("get_consumer_offset_p1", None),
        ("get_consumer_offset_p2", None),
        ("get_consumer_offset_p3", 0),
        ("get_consumer_offset_unknown_group", None),
    ],
)
def test_a_recorded_offset_is_read_and_an_empty_answer_is_none(
    version: str, name: str, stored: int | None
) -> None:
    """OK with an empty body means that nothing is stored; a stored 0 is an offset."""
    exchange = _ALL[version][name]

    partition = exchange.asked["payload"]["partition_id"]

    assert wire.parse_stored_offset(exchange.reply().ok_body(), partition) == stored


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["get_topic_unknown", "get_consumer_group_unknown"])
def test_what_does_not_exist_has_an_empty_body(version: str, name: str) -> None:
    """Unknown names are no error on the wire: the empty body is all there is to see."""
    assert _ALL[version][name].reply().ok_body() == b""


@pytest.mark.parametrize(
    ("version", "name", "status"),
    [
        ("0.8", "unauthenticated_get_topic", wire.UNAUTHENTICATED),
        ("0.9", "unauthenticated_get_topic", wire.UNAUTHENTICATED),
        ("0.8", "unauthenticated_get_consumer_offset", wire.UNAUTHENTICATED),
        ("0.9", "unauthenticated_get_consumer_offset", wire.UNAUTHENTICATED),
        ("0.8", "unknown_command_code", 3),
        ("0.9", "unknown_command_code", 3),
        ("0.9", "get_consumer_offset_partition_out_of_range", wire.PARTITION_NOT_FOUND),
    ],
)
def test_a_status_is_an_error_and_never_an_empty_answer(
    version: str, name: str, status: int
) -> None:
    """An error body is empty too; only the status tells it from "nothing stored"."""
    reply = _ALL[version][name].reply()

    with pytest.raises(wire.IggyRefused) as refused:
        reply.ok_body()

    assert (reply.body, refused.value.status) == (b"", status)


def test_one_ping_reports_the_layouts_apart() -> None:
    """A 0.8 server answers the 0.9 ping with 8-byte errors, a 0.9 server with 256 bytes."""
    plain = _ALL["0.8"]["cross_ping_0.9_framing_to_0.8_server"]
    replica = _ALL["0.9"]["ping_unauthenticated"]

    assert is_plain_answer(plain.response[:8])
    assert not is_plain_answer(replica.response[:8])
    assert len(replica.response) == ReplicaLayout.header_bytes
    assert plain.request[:128] == replica.request[:128]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["get_topic", "get_consumer_offset_p0"])
def test_a_reply_of_the_wrong_length_is_malformed(version: str, name: str) -> None:
    """A byte too few or too many is an error, whatever field it falls into."""
    exchange = _ALL[version][name]
    body = exchange.reply().body
    is_topic = name == "get_topic"
    parse = exchange.layout().parse_topic if is_topic else lambda b: wire.parse_stored_offset(b, 0)

    for size in range(1, len(body)):
        with pytest.raises(wire.MalformedReply):
            parse(body[:size])
    with pytest.raises(wire.MalformedReply):
        parse(body + b"\0")


def test_a_frame_that_no_iggy_server_sends_is_malformed() -> None:
    """Too short a frame, one of 4 GiB, one of an unknown kind: the connection is given up."""
    layout = ReplicaLayout(b"c" * 16)

    for size in (0, 255, 2**32 - 1):
        header = bytes(48) + size.to_bytes(4, "little") + bytes(204)
        with pytest.raises(wire.MalformedReply):
            layout.body_bytes(header)
    with pytest.raises(wire.MalformedReply):
        layout.reply(bytes(256), b"")
    with pytest.raises(wire.MalformedReply):
        PlainLayout().body_bytes(b"\0\0\0\0HTTP")


def test_digits_are_a_numeric_id_and_anything_else_a_name() -> None:
    """Kind 1 with four bytes, or kind 2 with the UTF-8 bytes; 0 is a valid id."""
    assert wire.idents("0") == bytes([1, 4, 0, 0, 0, 0])
    assert wire.idents("258") == bytes([1, 4, 2, 1, 0, 0])
    assert wire.idents("päck") == bytes([2, 5]) + "päck".encode()
    assert wire.idents("²") == bytes([2, 2]) + "²".encode()
    assert wire.is_identifier("4294967295")
    assert not wire.is_identifier("4294967296")
    assert not wire.is_identifier("")
    assert not wire.is_identifier("é" * 128)
