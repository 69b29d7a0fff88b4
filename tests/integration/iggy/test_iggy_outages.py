"""An outage is an error within the time limit, never a group without offsets; then it continues."""

from __future__ import annotations

import ssl
import threading
import time
from pathlib import Path

import pytest
from tests.eventually import eventually
from tests.fakes.iggy_answers import FakePartition
from tests.fakes.iggy_recordings import VERSIONS
from tests.fakes.iggy_server import FakeIggyServer
from tests.integration.certificates import Authority, KeyPair
from tests.integration.iggy.iggy_setting import (
    SkippedClock,
    offsets_of,
    sampled,
    source_of,
    state_of,
)

from lag_scaler.offsets import GroupSample

pytestmark = pytest.mark.slow
LIMIT_SECONDS = 2.0
PARTITIONS = [FakePartition(10), FakePartition(5)]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_server_away_is_an_error_until_it_is_back(version: str) -> None:
    """Attempts wait 0.5 to 8 s in between; the first one after the return has the offsets."""
    clock = SkippedClock(is_standing=True)  # however long an attempt takes, the next is in its wait
    server = FakeIggyServer(state_of(version, PARTITIONS, p0=6))
    server.start()
    source = source_of(server.address, clock=clock)
    sampled(source)
    server.stop()

    errors, tries = [], []
    for _ in range(6):
        for _ in range(2):  # the second one comes at once: it only repeats the error
            errors.append(sampled(source).error)
            tries.append(source.connects_tried)
        clock.skipped_seconds += 8.0
    accepted = server.accepted
    server.start()
    back = sampled(source)

    assert len(set(errors)) == 1
    assert tries == [2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert offsets_of(back)[0] == (0, 10, 7, 0)
    assert server.accepted - accepted == (2 if version == "0.8" else 1)
    source.close()
    server.stop()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_restart_between_two_samples_costs_none(version: str) -> None:
    """A connection that was closed while idle is opened again within the sample."""
    with FakeIggyServer(state_of(version, PARTITIONS, p0=6)) as server:
        source = source_of(server.address)
        sampled(source)
        server.stop()
        server.start()

        assert offsets_of(sampled(source))[0] == (0, 10, 7, 0)
        source.close()


def test_an_upgraded_server_is_asked_in_its_new_layout() -> None:
    """The layout is found out on each connect, so 0.8 can become 0.9 under a running scaler."""
    state = state_of("0.8", PARTITIONS, p0=6)
    with FakeIggyServer(state) as server:
        source = source_of(server.address)
        sampled(source)
        server.stop()
        state.version = "0.9"
        server.start()

        assert offsets_of(sampled(source))[0] == (0, 10, 7, 0)
        assert source.protocol_version == "0.9"
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("delay_seconds", [0.0, 0.6])
def test_a_silent_or_slow_server_costs_the_time_limit_and_no_more(
    version: str, delay_seconds: float
) -> None:
    """One limit for the whole sample: replies that drip in, 10 in 6 s, do not stretch it."""
    clock = SkippedClock()
    partitions = [FakePartition(10) for _ in range(8)]
    with FakeIggyServer(state_of(version, partitions, p0=6)) as server:
        source = source_of(server.address, timeout_seconds=LIMIT_SECONDS, clock=clock)
        eventually(lambda: not sampled(source).error, "a sample within the limit")
        server.behaviour.delay_seconds = delay_seconds
        server.behaviour.is_silent = not delay_seconds
        began = time.monotonic()

        slow = sampled(source)

        took_seconds = time.monotonic() - began
        assert f" {LIMIT_SECONDS:g} s" in slow.error
        assert took_seconds > LIMIT_SECONDS - 0.2
        server.behaviour.delay_seconds, server.behaviour.is_silent = 0.0, False

        def back() -> GroupSample | None:
            clock.skipped_seconds += 8.0
            sample = sampled(source)
            return None if sample.error else sample

        assert offsets_of(eventually(back, "offsets again"))[0] == (0, 10, 7, 0)
        source.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_reply_cut_in_the_middle_is_an_error(version: str) -> None:
    """Half a reply is no reply; the next connection starts again."""
    clock = SkippedClock()
    with FakeIggyServer(state_of(version, PARTITIONS, p0=6)) as server:
        source = source_of(server.address, clock=clock)
        sampled(source)
        server.behaviour.cut_replies_bytes = 5

        cut = sampled(source)

        assert "lost the connection" in cut.error
        server.behaviour.cut_replies_bytes = None
        clock.skipped_seconds += 1.0
        assert offsets_of(sampled(source))[0] == (0, 10, 7, 0)
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

        sample = sampled(source)

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
    clock = SkippedClock()
    state = state_of("0.8", PARTITIONS, p0=6)
    with FakeIggyServer(state) as server:
        source = source_of(server.address, clock=clock)
        sampled(source)
        state.refused_codes = {300: 40}

        lost = sampled(source)

        assert "not logged in" in lost.error
        state.refused_codes = {}
        clock.skipped_seconds += 1.0
        assert offsets_of(sampled(source))[0] == (0, 10, 7, 0)
        assert server.asked.count(38) == 2
        source.close()


def test_samples_of_several_threads_share_one_connection() -> None:
    """Objects that sample at the same time follow one another; no reply goes astray."""
    with FakeIggyServer(state_of("0.9", PARTITIONS, p0=6)) as server:
        source = source_of(server.address)
        found: list[GroupSample] = []
        threads = [threading.Thread(target=lambda: found.append(sampled(source))) for _ in range(8)]

        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)

        assert [offsets_of(sample)[0] for sample in found] == [(0, 10, 7, 0)] * 8
        assert server.accepted == 1
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
