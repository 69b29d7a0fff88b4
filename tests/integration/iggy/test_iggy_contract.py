"""The same facts from the fake servers and from a real one, which IGGY_ADDRESS names."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fakes.iggy_answers import FakePartition
from tests.fakes.iggy_server import FakeIggyServer
from tests.integration.iggy.iggy_setting import ORDERS, offsets_of, sampled, source_of, state_of

from lag_scaler.iggy_source import IggySource
from lag_scaler.offsets import GroupTopic

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
MESSAGES = (10, 5, 0, 1)


@dataclass(frozen=True)
class Prepared:
    """A server with the topic of the contract."""

    address: str
    wanted: GroupTopic
    source: IggySource


@pytest.fixture(params=["fake 0.8", "fake 0.9", "real"])
def prepared(request: pytest.FixtureRequest) -> Iterator[Prepared]:
    """Provide a topic with 10, 5, 0 and 1 messages; 0..6, none, none and the one processed."""
    if request.param == "real":
        yield from _real()
        return
    version = request.param.removeprefix("fake ")
    partitions = [FakePartition(count) for count in MESSAGES]
    with FakeIggyServer(state_of(version, partitions, p0=6, p3=0)) as server:
        source = source_of(server.address)
        yield Prepared(server.address, ORDERS, source)
        source.close()


def test_a_group_has_its_offsets_on_full_empty_and_one_message_partitions(
    prepared: Prepared,
) -> None:
    """End and committed are the next offsets; nothing stored is -1, also in an empty partition."""
    sample = sampled(prepared.source, prepared.wanted)

    assert offsets_of(sample) == [(0, 10, 7, 0), (1, 5, -1, 0), (2, 0, -1, 0), (3, 1, 1, 0)]


def test_what_is_not_there_is_an_error(prepared: Prepared) -> None:
    """An unknown group, topic and stream fail by name."""
    stream, _, topic = prepared.wanted.topic.partition("/")
    nowhere = [
        GroupTopic("nope", f"{stream}/{topic}"),
        GroupTopic(prepared.wanted.group, f"{stream}/nope"),
        GroupTopic(prepared.wanted.group, f"nope/{topic}"),
    ]

    samples = prepared.source.sample(nowhere)

    assert all("nope" in samples[item].error for item in nowhere)


def test_the_client_library_sees_the_same(prepared: Prepared) -> None:
    """apache-iggy of PyPI reads the offsets from which this adapter has its own."""
    sampled(prepared.source, prepared.wanted)
    if prepared.source.protocol_version == "0.8":
        pytest.skip("apache-iggy 0.9.0 speaks only the protocol of 0.9")

    seen = json.loads(_library("read", prepared).stdout)

    assert seen == {
        "partitions": [[0, 9, 10], [1, 4, 5], [2, 0, 0], [3, 0, 1]],
        "stored": {"0": 6, "1": None, "2": None, "3": 0},
    }


def _real() -> Iterator[Prepared]:
    address = os.environ.get("IGGY_ADDRESS")
    if not address:
        pytest.skip("IGGY_ADDRESS names no server (docker compose --profile iggy up -d)")
    login = {
        "username": os.environ.get("IGGY_USERNAME", "iggy"),
        "password": os.environ.get("IGGY_PASSWORD", "iggy"),
    }
    source = source_of(address, **login)
    wanted = GroupTopic("enrich", f"lagbench-{secrets.token_hex(4)}/orders")
    given = os.environ.get("IGGY_TOPIC")  # of a 0.8 server, prepared by hand as stream/topic
    if given:
        wanted = GroupTopic(os.environ.get("IGGY_GROUP", "enrich"), given)
    found = Prepared(address, wanted, source)
    if not given:
        sampled(source, wanted)  # connects
        if source.protocol_version == "0.8":
            pytest.skip("IGGY_TOPIC names no prepared topic; the library cannot make one on 0.8")
        _library("prepare", found)
    yield found
    source.close()
    if not given:
        _library("delete", found)


def _library(what: str, prepared: Prepared) -> subprocess.CompletedProcess[str]:
    stream, _, topic = prepared.wanted.topic.partition("/")
    connection = prepared.source.server
    password = connection.password.get_secret_value() if connection.password else ""
    ended = subprocess.run(
        [
            sys.executable,
            *("-m", "tests.integration.iggy.library_client"),
            *(what, prepared.address, stream, topic, prepared.wanted.group),
        ],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "IGGY_USERNAME": connection.username, "IGGY_PASSWORD": password},
        text=True,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stderr[-500:]
    return ended
