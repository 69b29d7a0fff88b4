"""Offsets through a real socket in both layouts; an outage is an error, never a new group."""

from __future__ import annotations

import ssl
import time
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.fakes.iggy_answers import FakePartition
from tests.fakes.iggy_recordings import VERSIONS
from tests.fakes.iggy_server import FakeIggyServer
from tests.integration.certificates import Authority, KeyPair
from tests.integration.iggy.iggy_setting import ORDERS, offsets_of, sampled, source_of, state_of

from lag_scaler.iggy_source import IggySource
from lag_scaler.offsets import GroupSample, GroupTopic

pytestmark = pytest.mark.slow
RECORDED = [FakePartition(10), FakePartition(5), FakePartition(0), FakePartition(1)]


def test_expired_messages_keep_their_offsets_and_a_purge_starts_again() -> None:
    """Ends continue after an expiry, also of the only message; a purge forgets offsets as well."""
    partitions = [
        FakePartition(messages=4, offset=99),  # 0..95 expired
        FakePartition(messages=0, offset=99),  # all expired
        FakePartition(messages=0, offset=0),  # one message, expired, processed
        FakePartition(messages=0, offset=0),  # purged or never written
    ]
    with FakeIggyServer(state_of("0.8", partitions, p0=95, p1=99, p2=0)) as server:
        sample = sampled(source_of(server.address))

    assert offsets_of(sample) == [
        (0, 100, 96, 96),
        (1, 100, 100, 100),
        (2, 1, 1, 1),
        (3, 0, -1, 0),
    ]


@pytest.mark.parametrize("groups", [1, 50])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_sample_of_one_group_is_one_round_trip_and_many_share_the_topic(
    version: str, groups: int
) -> None:
    """24 partitions: each group's offsets, the group, and the topic once; no buffer fills up."""
    state = state_of(version, [FakePartition(10) for _ in range(24)])
    topic = state.topics["shop", "orders"]
    topic.groups = {f"g{number}": {0: number % 10} for number in range(groups)}
    wanted = [GroupTopic(f"g{number}", "shop/orders") for number in range(groups)]
    with FakeIggyServer(state) as server:
        source = source_of(server.address)
        source.sample(wanted)
        asked, accepted, batches = len(server.asked), server.accepted, server.batches

        samples = source.sample(wanted)

        firsts = [samples[item].committed[0] for item in wanted]
        assert firsts == [number % 10 + 1 for number in range(groups)]
        codes = server.asked[asked:]
        counts = (codes.count(120), codes.count(600), codes.count(300))
        assert counts == (24 * groups, groups, 1)
        assert server.accepted == accepted
        assert groups > 1 or server.batches == batches + 1
        source.close()


def test_new_partitions_are_seen_in_the_same_sample() -> None:
    """A topic that has grown is read again at once, with all of its partitions."""
    state = state_of("0.9", RECORDED, p0=6, p4=1)
    with FakeIggyServer(state) as server:
        source = source_of(server.address)
        sampled(source)
        state.topics["shop", "orders"].partitions.append(FakePartition(3))

        sample = sampled(source)

        assert offsets_of(sample)[4] == (4, 3, 2, 0)
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (GroupTopic("nope", "shop/orders"), "group 'nope'"),
        (GroupTopic("enrich", "shop"), "Iggy topic"),
        (GroupTopic("", "shop/orders"), "Iggy consumer group"),
        (GroupTopic("enrich", "4294967296/orders"), "'4294967296'"),
    ],
)
def test_a_typo_is_that_samples_error_and_not_a_new_group(
    version: str, wanted: GroupTopic, said: str
) -> None:
    """A missing topic or group fails by name; the other groups of the batch are read."""
    with FakeIggyServer(state_of(version, RECORDED, p0=6)) as server:
        samples = source_of(server.address).sample([wanted, ORDERS])

    assert said in samples[wanted].error
    assert not len(samples[wanted].partitions)
    assert len(offsets_of(samples[ORDERS])) == 4


@pytest.mark.parametrize("code", [120, 300, 600])
def test_a_refused_read_is_an_error_and_not_a_new_group(code: int) -> None:
    """Without the permission there are no offsets, which is not "nothing committed"."""
    state = state_of("0.9", RECORDED, p0=6)
    state.refused_codes = {code: 41}
    with FakeIggyServer(state) as server:
        sample = sampled(source_of(server.address))

    assert "status 41" in sample.error


LIMIT_SECONDS = 2.0
PARTITIONS = [FakePartition(10), FakePartition(5)]


def back_again(source: IggySource) -> GroupSample:
    """Return the first sample without an error."""

    def sample() -> GroupSample | None:
        found = sampled(source)
        return None if found.error else found

    return eventually(sample, "offsets again")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_away_is_an_error_until_it_is_back(version: str) -> None:
    """Each sample has the same words; soon after the return one has offsets."""
    server = FakeIggyServer(state_of(version, PARTITIONS, p0=6))
    server.start()
    source = source_of(server.address)
    sampled(source)
    server.stop()

    errors = {sampled(source).error for _ in range(3)}
    server.start()

    assert len(errors) == 1
    assert offsets_of(back_again(source))[0] == (0, 10, 7, 0)
    source.close()
    server.stop()


@pytest.mark.parametrize(("before", "after"), [("0.8", "0.8"), ("0.9", "0.9"), ("0.8", "0.9")])
def test_a_restart_between_two_samples_costs_none(before: str, after: str) -> None:
    """A connection that was closed while idle is opened again, perhaps to another version."""
    state = state_of(before, PARTITIONS, p0=6)
    with FakeIggyServer(state) as server:
        source = source_of(server.address)
        sampled(source)
        server.stop()
        state.version = after
        server.start()

        assert offsets_of(sampled(source))[0] == (0, 10, 7, 0)
        assert source.protocol_version == after
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("delay_seconds", [0.0, 0.6])
def test_a_silent_or_slow_server_costs_the_time_limit_and_no_more(
    version: str, delay_seconds: float
) -> None:
    """One limit for the whole sample: replies that drip in, 10 in 6 s, do not stretch it."""
    partitions = [FakePartition(10) for _ in range(8)]
    with FakeIggyServer(state_of(version, partitions, p0=6)) as server:
        source = source_of(server.address, timeout_seconds=LIMIT_SECONDS)
        eventually(lambda: not sampled(source).error, "a sample within the limit")
        server.behaviour.delay_seconds = delay_seconds
        server.behaviour.is_silent = not delay_seconds
        began = time.monotonic()

        slow = sampled(source)

        took_seconds = time.monotonic() - began
        assert f" {LIMIT_SECONDS:g} s" in slow.error
        assert took_seconds > LIMIT_SECONDS - 0.2
        server.behaviour.delay_seconds, server.behaviour.is_silent = 0.0, False

        assert offsets_of(back_again(source))[0] == (0, 10, 7, 0)
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reply_cut_in_the_middle_is_an_error(version: str) -> None:
    """Half a reply is no reply; the next connection starts again."""
    with FakeIggyServer(state_of(version, PARTITIONS, p0=6)) as server:
        source = source_of(server.address)
        sampled(source)
        server.behaviour.cut_replies_bytes = 5

        cut = sampled(source)

        assert "lost the connection" in cut.error
        server.behaviour.cut_replies_bytes = None
        assert offsets_of(back_again(source))[0] == (0, 10, 7, 0)
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "login",
    [
        {"password": "not-the-secret"},
        {"username": "nobody"},
        {"access_token": "not-the-token"},
    ],
)
def test_wrong_credentials_are_an_error_that_shows_none(
    version: str, login: dict[str, str]
) -> None:
    """The server's reason arrives; user, password and token do not."""
    with FakeIggyServer(state_of(version, PARTITIONS, p0=6)) as server:
        source = source_of(server.address, **login)

        sample, tried = sampled(source), server.accepted

        assert [sampled(source).error for _ in range(3)] == [sample.error] * 3
        assert server.accepted == tried  # the next try waits: no storm of logins
    assert "wrong" in sample.error
    assert not [secret for secret in login.values() if secret in sample.error + repr(source)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_token_logs_in(version: str) -> None:
    """A personal access token is enough."""
    state = state_of(version, PARTITIONS, p0=6)
    state.tokens = {"a-personal-token"}
    with FakeIggyServer(state) as server:
        sample = sampled(source_of(server.address, access_token="a-personal-token"))  # noqa: S106

    assert offsets_of(sample)[0] == (0, 10, 7, 0)


def test_a_lost_login_is_an_error_once_and_then_made_again() -> None:
    """A server that forgot the session rejects; the connection is opened again."""
    state = state_of("0.8", PARTITIONS, p0=6)
    with FakeIggyServer(state) as server:
        source = source_of(server.address)
        sampled(source)
        state.refused_codes = {300: 40}

        lost = sampled(source)

        assert "not logged in" in lost.error
        state.refused_codes = {}
        assert offsets_of(back_again(source))[0] == (0, 10, 7, 0)
        assert server.asked.count(38) == 2
        source.close()


@pytest.fixture(scope="module")
def authority() -> Authority:
    """Provide an authority that has signed the server's certificate."""
    return Authority()


@pytest.fixture(scope="module")
def server_key(authority: Authority) -> KeyPair:
    """Provide the server's certificate for 127.0.0.1 and localhost."""
    return authority.issue("iggy")


@pytest.mark.parametrize("version", VERSIONS)
def test_tls_checks_the_server_against_the_named_authority(
    version: str, authority: Authority, server_key: KeyPair, tmp_path: Path
) -> None:
    """The right CA reads offsets; the system's authorities do not."""
    state = state_of(version, PARTITIONS, p0=6)

    def error(**changes: object) -> str:
        return sampled(source_of(server.address, is_tls=True, **changes)).error

    with FakeIggyServer(state, tls=server_context(server_key, tmp_path)) as server:
        good = sampled(source_of(server.address, is_tls=True, ca=authority.certificate))

        assert offsets_of(good)[0] == (0, 10, 7, 0)
        assert "certificate verify failed" in error()
        assert "could not read the CA" in error(ca="not a certificate")


def server_context(key: KeyPair, folder: Path) -> ssl.SSLContext:
    """Return a server's side of TLS."""
    certificate_file, key_file = folder / "server.pem", folder / "server.key"
    certificate_file.write_text(key.certificate)
    key_file.write_text(key.private_key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file, key_file)
    return context
