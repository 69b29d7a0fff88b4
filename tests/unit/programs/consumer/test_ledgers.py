"""The ledger's record format."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from tests.unit.programs.consumer.fake_group import Reported, begun, chunk

from lagbench.core.telemetry.records_of_programs import CommitFailed, OffsetsCommitted
from lagbench.errors import NotReady
from lagbench.programs.consumer import transactional_ledger
from lagbench.programs.consumer.consumer_settings import parse_options
from lagbench.programs.consumer.ledger import encode_batch, ledger_schema
from lagbench.programs.consumer.pod_reports import PodCounts, PodReports
from lagbench.programs.consumer.rebalance import GroupIdentity
from lagbench.programs.consumer.transactional_ledger import TransactionalLedger
from lagbench.programs.consumer.work_queues import PartitionWork, WorkQueues
from pod_program.steady_clock import SteadyClock


def test_a_batch_is_an_arrow_stream_with_every_column_in_order() -> None:
    """Several periods of writes become one record batch with the agreed columns and labels."""
    work = PartitionWork(3, "member-1")
    work.offer(chunk(10, 5))
    taken = [begun(work, count) for count in (2, 3)]
    periods = [
        replace(each, started_at=each.offsets * 100, done_at=each.offsets * 100 + 50)
        for each in taken
    ]

    value = encode_batch(periods, ledger_schema(3, "pod-a", "member-1"))

    table = pa.ipc.open_stream(value).read_all()
    assert table.to_pydict() == {
        "offset": [10, 11, 12, 13, 14],
        "seq": [1010, 1011, 1012, 1013, 1014],
        "entity_id": [70, 77, 84, 91, 98],
        "planned_offset_ns": [110, 121, 132, 143, 154],
        "started_at": [1000, 1100, 1200, 1300, 1400],
        "done_at": [1050, 1150, 1250, 1350, 1450],
    }
    assert [str(kind) for kind in table.schema.types] == [
        "int64", "uint64", "uint64", "int64", "int64", "int64",
    ]  # fmt: skip
    assert table.schema.metadata == {
        b"version": b"1",
        b"pod": b"pod-a",
        b"partition": b"3",
        b"member_id": b"member-1",
    }


def test_encoding_does_not_import_pandas() -> None:
    """Pandas would cost each pod a second and 50 MB."""
    code = (
        "import sys; import numpy as np;"
        "from lagbench.programs.consumer.ledger import encode_batch, ledger_schema;"
        "from lagbench.programs.consumer.work_queues import PartitionWork;"
        "from tests.unit.programs.consumer.fake_group import begun, chunk;"
        "work = PartitionWork(0, 'm'); work.offer(chunk(0, 2));"
        "encode_batch([begun(work, 2)], ledger_schema(0, 'p', 'm'));"
        "sys.exit('pandas' in sys.modules)"
    )

    ended = subprocess.run([sys.executable, "-c", code], check=False, timeout=60)

    assert ended.returncode == 0


ENVIRONMENT = {"POD_NAME": "pod-a", "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092"}
OPTIONS = parse_options(["--run-id=run-1", "--commit=transactional"], ENVIRONMENT)
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "no answer", retriable=True)
STALE = KafkaError(KafkaError.ILLEGAL_GENERATION, "stale", txn_requires_abort=True)
FENCED = KafkaError(KafkaError._FENCED, "fenced", fatal=True)


class FakeProducer:
    """A transactional producer: what is committed, and errors that are answered first."""

    def __init__(self) -> None:
        """Nothing is committed."""
        self.calls: list[str] = []
        self.open: list[bytes] = []
        self.offsets: dict[int, int] = {}
        self.records: list[bytes] = []
        self.committed: dict[int, int] = {}
        self.errors: dict[str, list[KafkaError]] = {}

    def init_transactions(self, _seconds: float) -> None:
        """Register."""
        self._answer("init")

    def begin_transaction(self) -> None:
        """Begin."""
        self._answer("begin")

    def produce(self, _topic: str, value: bytes, _key: bytes) -> None:
        """Add a record."""
        if self.errors.get("produce"):
            raise KafkaException(self.errors["produce"].pop(0))
        self.open.append(value)

    def poll(self, _seconds: float) -> int:
        """Serve nothing."""
        return 0

    def send_offsets_to_transaction(
        self, offsets: list[TopicPartition], _group: object, _seconds: float
    ) -> None:
        """Add offsets."""
        self._answer("offsets")
        self.offsets |= {place.partition: place.offset for place in offsets}

    def commit_transaction(self, _seconds: float) -> None:
        """Commit records and offsets."""
        self._answer("commit")
        self.records += self.open
        self.committed |= self.offsets
        self.open, self.offsets = [], {}

    def abort_transaction(self, _seconds: float) -> None:
        """Drop them."""
        self._answer("abort")
        self.open, self.offsets = [], {}

    def _answer(self, call: str) -> None:
        self.calls.append(call)
        waiting = self.errors.get(call)
        if waiting:
            raise KafkaException(waiting.pop(0))


class LedgerWorld:
    """A ledger with its queues and its broker."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Hold partitions 0 and 1."""
        self.producer = FakeProducer()
        monkeypatch.setattr(transactional_ledger, "Producer", lambda _settings: self.producer)
        self.reported = Reported()
        self.queues = WorkQueues(1, lambda _partition, _offset: None)
        self.queues.own([0, 1], "member-1")
        reports = PodReports(OPTIONS, self.reported.send, PodCounts(), SteadyClock())
        self.ledger = TransactionalLedger(OPTIONS, GroupIdentity(), self.queues, reports)

    def do(self, partition: int, first_offset: int, count: int) -> PartitionWork:
        """Do ``count`` records of a partition and send them."""
        (work,) = (work for work in self.queues.owned() if work.partition == partition)
        self.queues.offer(partition, chunk(first_offset, count))
        self.queues.finish(begun(work, count))
        (batch,) = self.queues.due_batches(lambda _work: True)
        self.ledger.send(batch)
        return work

    def after_the_pause(self) -> None:
        """Serve a rebalance when the pause after an abort has ended."""
        pause = threading.Event()
        pause.wait(transactional_ledger._ABORT_PAUSE_SECONDS + 0.05)
        self.ledger.serve(is_hurried=True)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> LedgerWorld:
    """Provide a ledger whose first batch is committed, so that the interval counts."""
    made = LedgerWorld(monkeypatch)
    made.do(0, 0, 1)
    made.ledger.serve(is_hurried=False)
    assert made.producer.committed == {0: 1}
    return made


def test_records_and_offsets_are_committed_together(world: LedgerWorld) -> None:
    """Until the interval has ended, or a rebalance waits, nothing is settled; then all is."""
    work = world.do(0, 1, 3)
    other = world.do(1, 0, 2)
    world.ledger.serve(is_hurried=False)
    before = (work.unsettled, other.unsettled, dict(world.producer.committed))

    world.ledger.serve(is_hurried=True)

    assert before == (3, 2, {0: 1})
    assert (work.unsettled, other.unsettled) == (0, 0)
    assert world.producer.committed == {0: 4, 1: 2} == {0: work.committed, 1: other.committed}
    assert len(world.producer.records) == 3
    last = world.reported.of(OffsetsCommitted)[-1]
    assert (last.offsets, last.cause) == ({"0": 4, "1": 2}, "revoke")


@pytest.mark.parametrize(
    ("call", "error", "failures"),
    [
        # A generation that the member had not heard of.
        ("offsets", STALE, 1),
        # The client had an error of its own: the record that it rejected goes with the next one.
        ("produce", KafkaError(KafkaError._STATE, "abort first"), 0),
    ],
)
def test_an_aborted_batch_is_committed_with_the_next_transaction(
    world: LedgerWorld, call: str, error: KafkaError, failures: int
) -> None:
    """The records are there once in the end."""
    world.producer.errors[call] = [error]
    work = world.do(0, 1, 3)
    world.ledger.serve(is_hurried=True)
    after_abort = (world.producer.calls[-2:], work.unsettled, len(world.producer.records))

    world.after_the_pause()

    assert after_abort == (["abort", "begin"], 3, 1)
    assert (work.unsettled, world.producer.committed) == (0, {0: 4})
    assert len(world.producer.records) == 2
    assert len(world.reported.of(CommitFailed)) == failures


def test_what_was_given_up_is_never_committed(world: LedgerWorld) -> None:
    """A lost partition's batch goes with its transaction; the others' stay."""
    lost, kept = world.do(0, 1, 3), world.do(1, 0, 2)
    world.queues.disown([lost])

    world.ledger.serve(is_hurried=True)
    world.after_the_pause()

    assert world.producer.committed == {0: 1, 1: 2}
    assert len(world.producer.records) == 2
    assert (kept.unsettled, lost.unsettled) == (0, 0)
    assert not world.queues.is_unsettled()


def test_a_batch_of_a_partition_that_is_gone_is_dropped(world: LedgerWorld) -> None:
    """A write that ends after its partition was lost begins no transaction."""
    work = world.queues.owned()[0]
    world.queues.offer(0, chunk(1, 2))
    writes = begun(work, 2)
    world.queues.disown([work])
    world.queues.finish(writes)
    calls = list(world.producer.calls)

    for batch in world.queues.due_batches(lambda _work: True):
        world.ledger.send(batch)

    assert world.producer.calls == calls
    assert not world.queues.is_unsettled()


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_request_without_an_answer_is_asked_again(world: LedgerWorld, *, is_lost: bool) -> None:
    """The broker is unreachable: the same commit continues, offsets are not sent a second time.

    If a partition is lost meanwhile, the request under way is ended before the abort.
    """
    world.producer.errors["offsets" if is_lost else "commit"] = [TIMED_OUT]
    work = world.do(0, 1, 3)
    world.ledger.serve(is_hurried=True)
    if is_lost:
        world.queues.disown([work])

    world.ledger.serve(is_hurried=True)

    last = ["offsets", "offsets", "abort"] if is_lost else ["offsets", "commit", "commit"]
    assert world.producer.calls[-4:] == ["begin", *last]
    assert world.producer.committed == {0: 1 if is_lost else 4}
    assert work.unsettled == 0


def test_nothing_joins_a_transaction_whose_commit_is_under_way(world: LedgerWorld) -> None:
    """A batch that comes meanwhile waits for the answer and has a transaction of its own."""
    world.producer.errors["commit"] = [TIMED_OUT]
    world.do(0, 1, 3)
    world.ledger.serve(is_hurried=True)

    world.do(0, 4, 2)
    before = (world.producer.calls[-1], len(world.producer.open))
    world.ledger.serve(is_hurried=False)

    assert before == ("commit", 1)
    assert world.producer.committed == {0: 4}
    assert world.producer.calls[-1] == "begin"
    assert world.ledger.flush(1) == 0
    assert world.producer.committed == {0: 6}


def test_what_can_never_be_committed_ends_the_pod(world: LedgerWorld) -> None:
    """A record that the client rejects, or another of the same name that has taken over."""
    world.producer.errors["produce"] = [KafkaError(KafkaError.MSG_SIZE_TOO_LARGE, "too large")]
    with pytest.raises(KafkaException, match="too large"):
        world.do(0, 1, 3)

    world.producer.errors["commit"] = [FENCED]
    with pytest.raises(NotReady, match="fenced"):
        world.ledger.serve(is_hurried=True)


def test_it_does_not_abort_for_ever(world: LedgerWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a minute of aborts, with no commit between them, is no rebalance: the pod ends."""
    world.producer.errors["offsets"] = [STALE, STALE]
    world.do(0, 1, 3)
    world.ledger.serve(is_hurried=True)
    monkeypatch.setattr(transactional_ledger, "_FAILING_LIMIT_SECONDS", -1.0)

    with pytest.raises(NotReady):
        world.after_the_pause()


def test_a_broker_that_is_away_holds_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn asks once, for registering as for an abort; what is done meanwhile waits."""
    world = LedgerWorld(monkeypatch)
    world.producer.errors["init"] = [TIMED_OUT, TIMED_OUT]
    for asked in range(1, 4):
        world.do(0, asked, 1)
        world.ledger.serve(is_hurried=True)
        assert world.producer.calls.count("init") == asked
    assert world.producer.committed == {0: 4}

    world.producer.errors |= {"offsets": [STALE], "abort": [TIMED_OUT, TIMED_OUT]}
    world.do(0, 4, 1)
    for asked in range(1, 4):
        world.ledger.serve(is_hurried=True)
        assert world.producer.calls.count("abort") == asked
    world.after_the_pause()
    assert world.producer.committed == {0: 5}


def test_registering_may_take_longer_than_a_commit(
    monkeypatch: pytest.MonkeyPatch, world: LedgerWorld
) -> None:
    """A pod may start while the broker is unreachable; waiting work is not lost at once."""
    late = LedgerWorld(monkeypatch)
    late.producer.errors["init"] = [TIMED_OUT, TIMED_OUT]
    monkeypatch.setattr(transactional_ledger, "_FAILING_LIMIT_SECONDS", -1.0)
    late.ledger.serve(is_hurried=False)
    monkeypatch.setattr(transactional_ledger, "_REGISTERING_LIMIT_SECONDS", -1.0)

    with pytest.raises(NotReady):
        late.ledger.serve(is_hurried=False)
    assert world.producer.calls.count("init") == 1


def test_patience_begins_anew_when_nothing_is_left_to_commit(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it was given up with its partition: what fails much later fails for the first time."""
    lost = world.do(0, 1, 3)
    world.queues.disown([lost])
    world.ledger.serve(is_hurried=True)
    assert world.producer.calls[-1] == "abort"
    monkeypatch.setattr(transactional_ledger, "_FAILING_LIMIT_SECONDS", 0.0)
    world.producer.errors["offsets"] = [TIMED_OUT]
    work = world.do(1, 0, 2)

    world.after_the_pause()
    monkeypatch.undo()
    world.ledger.serve(is_hurried=True)

    assert work.unsettled == 0


def test_an_abort_is_not_followed_by_another_at_once(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However hurried: the group needs a moment for its next generation."""
    monkeypatch.setattr(transactional_ledger, "_ABORT_PAUSE_SECONDS", 60.0)
    world.producer.errors["offsets"] = [STALE]
    world.do(0, 1, 3)
    for _ in range(3):
        world.ledger.serve(is_hurried=True)

    assert world.producer.calls.count("abort") == 1
    assert world.producer.committed == {0: 1}
