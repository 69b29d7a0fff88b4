"""How the group is asked about while its broker goes away and comes back."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from lagbench.adapters.kafka.kafka_admin import GroupMember, GroupSnapshot
from lagbench.core.telemetry.records_of_recorder import GroupMembers, GroupSample
from lagbench.errors import NotReady
from lagbench.programs.recorder import kafka_readings
from lagbench.programs.recorder.kafka_readings import GroupReading
from pod_program.kafka_settings import RECOVERY

STABLE = GroupSnapshot("enrich", "STABLE", "classic", "range", ())


class FakeBroker:
    """Answers while it is up; a request that it never answered stays open permanently."""

    def __init__(self) -> None:
        """Be up."""
        self.is_up = self.has_coordinator = True
        self.now_seconds = 0.0
        self.group = STABLE
        self.clients: list[FakeAdmin] = []
        self.settings: Mapping[str, object] = {}

    def connect(self, settings: Mapping[str, object], **_: object) -> FakeAdmin:
        """Open a client."""
        self.settings = settings
        self.clients.append(FakeAdmin(self))
        return self.clients[-1]


class FakeAdmin:
    """A client, and the requests that it has open."""

    def __init__(self, broker: FakeBroker) -> None:
        """Speak to ``broker``."""
        self._broker = broker
        self.asked: list[Future[Any]] = []

    def check_reachable(self) -> int:
        """Answer, or fail as the real one does."""
        if not self._broker.is_up:
            raise NotReady("nobody answers")
        return 1

    def ask_for_group(self, _group: str, *, limit_seconds: float) -> Future[Any]:
        """Ask."""
        assert limit_seconds > 600
        self.asked.append(Future())
        if self._broker.is_up and self._broker.has_coordinator:
            self.asked[-1].set_result(self._broker.group)
        return self.asked[-1]

    def group_answer(self, _group: str, asked: Future[Any], *, wait_seconds: float) -> Any:
        """Return what came."""
        self._broker.now_seconds += wait_seconds
        if not asked.done():
            raise NotReady("no answer")
        return asked.result()


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """Provide a broker whose seconds pass with the waits."""
    broker = FakeBroker()
    monkeypatch.setattr(kafka_readings, "KafkaAdmin", broker.connect)
    monkeypatch.setattr("time.monotonic", lambda: broker.now_seconds)
    return broker


def reading_of_group() -> GroupReading:
    """Read the group ``enrich``, with a log-in of its own."""
    settings = {"bootstrap.servers": "broker:9092", "reconnect.backoff.max.ms": "60000"}
    return GroupReading(settings, group="enrich", topic="events", source="recorder")


def readings(reading: GroupReading, count: int) -> list[bool]:
    """Read some times; say which readings brought a sample."""
    brought = []
    for _ in range(count):
        try:
            brought.append(any(isinstance(r, GroupSample) for r in reading(1)))
        except NotReady:
            brought.append(False)
    return brought


def test_one_client_serves_while_the_broker_answers(broker: FakeBroker) -> None:
    """Each reading asks once; settings that outlive an outage win over those of the log-in."""
    assert readings(reading_of_group(), 3) == [True, True, True]
    assert [len(client.asked) for client in broker.clients] == [3]
    assert broker.settings == {"bootstrap.servers": "broker:9092", **RECOVERY}


def test_an_outage_leaves_one_request_open_and_ends(broker: FakeBroker) -> None:
    """While nobody answers there is one open request, of a client that is given up, not closed."""
    reading = reading_of_group()
    readings(reading, 1)

    broker.is_up = False
    assert not any(readings(reading, 30))
    open_requests = [f for client in broker.clients for f in client.asked if not f.done()]
    assert len(open_requests) == 1

    broker.is_up = True
    assert readings(reading, 2) == [True, True]
    assert len(broker.clients) == 2


def test_a_coordinator_that_is_away_for_long_costs_few_clients(broker: FakeBroker) -> None:
    """The broker answers, the coordinator does not: half an hour is 32 clients, not 450."""
    reading = reading_of_group()
    broker.has_coordinator = False
    assert not any(readings(reading, 1800))
    assert len(broker.clients) < 40

    broker.has_coordinator = True
    assert any(readings(reading, 62))


def test_a_client_is_let_go_when_its_request_has_ended(broker: FakeBroker) -> None:
    """It was kept for the request alone, and has threads and connections of its own."""
    reading = reading_of_group()
    broker.has_coordinator = False
    readings(reading, 5)
    given_up = weakref.ref(broker.clients.pop(0))
    assert given_up() is not None

    broker.has_coordinator = True
    given_up().asked[0].set_exception(NotReady("timed out"))  # type: ignore[union-attr]
    readings(reading, 70)
    assert given_up() is None


def member(client_id: str, *places: tuple[str, int]) -> GroupMember:
    """Return a member as the coordinator describes it."""
    return GroupMember(f"{client_id}-id", client_id, None, "/10.0.0.7", places)


def test_members_are_reported_when_they_change_and_every_ten_seconds(broker: FakeBroker) -> None:
    """With the partitions of the run's topic; a reading lasts a second here."""
    reading = reading_of_group()
    own = member("pod-a", ("events", 0), ("events", 1), ("other", 7))
    reported: list[int] = []
    records: list[GroupMembers] = []
    for number in range(25):
        shared = number in {4, 5, 6}
        members = (member("pod-a", ("events", 0)), member("canary", ("events", 1)))
        broker.group = GroupSnapshot(
            "enrich", "STABLE", "classic", "range", members if shared else (own,)
        )
        found = [record for record in reading(number) if isinstance(record, GroupMembers)]
        reported += [number] * len(found)
        records += found

    assert reported == [0, 4, 7, 17]
    assert [[m.client_id for m in record.members] for record in records[:2]] == [
        ["pod-a"],
        ["pod-a", "canary"],
    ]
    assert [m.partitions for m in records[1].members] == [[0], [1]]
    assert records[0].members[0].partitions == [0, 1]
    assert (records[1].at, records[1].source) == (4, "recorder")
    assert records[1].members[1].host == "/10.0.0.7"


def test_after_a_failed_reading_the_members_are_reported_again(broker: FakeBroker) -> None:
    """Who was there meanwhile is not known."""
    reading = reading_of_group()
    readings(reading, 2)
    broker.is_up = False
    readings(reading, 5)
    broker.is_up = True

    reported = [[type(record) for record in reading(number)] for number in range(2)]
    assert reported == [[GroupSample, GroupMembers], [GroupSample]]


@pytest.mark.parametrize(
    ("states", "is_rebalancing"),
    [
        (("STABLE", "EMPTY", "DEAD"), False),
        (
            (
                "PREPARING_REBALANCING",
                "COMPLETING_REBALANCING",
                "ASSIGNING",
                "RECONCILING",
                "UNKNOWN",
            ),
            True,
        ),
    ],
)
def test_a_group_is_rebalancing_in_each_state_but_those_of_rest(
    broker: FakeBroker, states: tuple[str, ...], is_rebalancing: bool
) -> None:
    """A reading that fails ends it: nothing is known then, and nobody is asked more often."""
    for state in states:
        broker.group = GroupSnapshot("enrich", state, "classic", "range", ())
        broker.is_up, reading = True, reading_of_group()

        readings(reading, 1)
        assert reading.is_rebalancing() is is_rebalancing, state
        broker.is_up = False
        readings(reading, 1)
        assert not reading.is_rebalancing()
