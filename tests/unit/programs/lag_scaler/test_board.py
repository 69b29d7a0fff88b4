"""Which objects are watched, who shares samples, and what a restart takes over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.unit.programs.lag_scaler.fake_source import FakeCluster

from lagbench.core.lag_scaler.decision import LagUnavailable
from lagbench.core.lag_scaler.metadata_reader import InvalidMetadata
from lagbench.programs.lag_scaler.board import Board
from lagbench.programs.lag_scaler.figures import ScalerFigures
from lagbench.programs.lag_scaler.saved_state import decode_state, encode_state
from lagbench.programs.lag_scaler.watched import Watched
from lagbench.wire import externalscaler_pb2 as wire

METADATA = {
    "bootstrapServers": "kafka:9092",
    "topic": "events",
    "consumerGroup": "enrich",
    "lagThreshold": "10",
    "sustainSeconds": "20",
    "samplingInterval": "10",
}


@dataclass
class Setting:
    """A board over a fake cluster, with clocks that a test moves."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    figures: ScalerFigures = field(default_factory=ScalerFigures)
    monotonic: float = 0.0
    now_ns: int = field(default_factory=time.time_ns)

    def board(self) -> Board:
        """Return a new board."""
        return Board(
            {},
            self.figures,
            now_ns=lambda: self.now_ns,
            idle_seconds=600,
            opener=self.cluster.open,
            monotonic=lambda: self.monotonic,
        )


def ref(name: str, **changes: str) -> wire.ScaledObjectRef:
    """Return an object as KEDA names it."""
    return wire.ScaledObjectRef(name=name, namespace="n", scalerMetadata={**METADATA, **changes})


def with_board(setting: Setting, test: Callable[[Board], Awaitable[None]]) -> None:
    """Run a test's steps in an event loop, at most 10 s."""

    async def run() -> None:
        board = setting.board()
        try:
            await asyncio.wait_for(test(board), 10)
        finally:
            board.close()

    asyncio.run(run())


async def answered(board: Board, *refs: wire.ScaledObjectRef) -> list[Watched]:
    """Return the objects, each with its first sample."""
    found = [board.find(item) for item in refs]
    for watched in found:
        await watched.first_answer(5)
    return found


def test_objects_on_one_group_share_a_sample_and_keep_their_own_rules() -> None:
    """Three objects, two groups: one batch with two entries, whatever the number of objects."""
    setting = Setting()

    async def steps(board: Board) -> None:
        one, two, other = await answered(
            board,
            ref("a"),
            ref("b", lagThreshold="5000"),
            ref("c", consumerGroup="audit"),
        )
        assert one.decision().stretch_started_at_ns is not None
        assert two.decision().stretch_started_at_ns is None
        assert other.decision().figures.total_lag == 200

    with_board(setting, steps)

    assert [[item.group for item in batch] for batch in setting.cluster.batches] == [
        ["enrich", "audit"]
    ]
    assert setting.cluster.opened == 1


def test_an_object_nobody_asks_about_for_ten_minutes_is_dropped() -> None:
    """The one that is asked about stays; with the last one, the cluster's sampling ends."""
    setting = Setting()

    async def steps(board: Board) -> None:
        await answered(board, ref("asked"), ref("forgotten", consumerGroup="audit"))
        setting.monotonic = 599
        board.find(ref("asked"))
        board.drop_idle()
        assert len(board) == 2
        setting.monotonic = 601
        board.drop_idle()
        assert len(board) == 1
        assert b"lagbench_scaler_objects 1.0" in setting.figures.exposition()[1]
        setting.monotonic = 1_300
        board.drop_idle()
        assert len(board) == 0
        assert b"lagbench_scaler_groups{" not in setting.figures.exposition()[1]

    with_board(setting, steps)


def test_refused_metadata_is_not_watched() -> None:
    """What cannot be sampled takes no place, however often it is asked about."""

    async def steps(board: Board) -> None:
        for _ in range(2):
            with pytest.raises(InvalidMetadata, match="lagThreshold"):
                board.find(ref("a", lagThreshold="0"))
        assert len(board) == 0

    with_board(Setting(), steps)


def test_a_failed_first_sample_is_an_error_with_the_reason() -> None:
    """There is no verdict, and it says what the cluster said."""
    setting = Setting(FakeCluster(error="broker down"))

    async def steps(board: Board) -> None:
        (watched,) = await answered(board, ref("a"))
        with pytest.raises(LagUnavailable, match="broker down"):
            watched.decision()

    with_board(setting, steps)


def test_an_old_sample_is_an_error_and_no_verdict() -> None:
    """26 s after the newest sample, at an interval of 10 s, nothing is said any more."""
    setting = Setting()

    async def steps(board: Board) -> None:
        (watched,) = await answered(board, ref("a"))
        setting.now_ns += 25_000_000_000
        assert watched.decision().figures.total_lag == 200
        setting.now_ns += 1_000_000_000
        with pytest.raises(LagUnavailable, match=r"26\.0 s old"):
            watched.decision()

    with_board(setting, steps)


def test_a_restart_goes_on_with_the_stretch_before_anybody_asks() -> None:
    """The object and its window are there again; 20 s later lag persists, with one more sample."""
    setting = Setting()
    saved: list[bytes] = []

    async def first(board: Board) -> None:
        await answered(board, ref("a"))
        saved.append(encode_state(await board.saved()))

    async def second(board: Board) -> None:
        setting.now_ns += 20_000_000_000
        board.restore(decode_state(saved[0]))
        assert len(board) == 1
        (watched,) = await answered(board, ref("a"))
        assert watched.decision().is_persistent
        assert watched.decision().span_seconds == 20.0

    with_board(setting, first)
    with_board(setting, second)


def test_an_object_with_a_secret_is_not_saved_but_its_window_is() -> None:
    """The state names neither the object nor the password; the window waits for KEDA's call."""
    setting = Setting()
    secret = {"sasl": "plaintext", "usernameFromEnv": "robot", "passwordFromEnv": "hunter2"}

    async def steps(board: Board) -> None:
        await answered(board, ref("a", **secret))
        data = encode_state(await board.saved())
        state = decode_state(data)
        assert b"hunter2" not in data
        assert not state.objects
        assert list(state.windows) == ["kafka:kafka:9092 | events | enrich | 10 s"]

    with_board(setting, steps)


def test_streams_are_woken_when_something_has_changed_and_only_then() -> None:
    """The same state again is no news; the loss of the verdict is."""
    setting = Setting()

    async def steps(board: Board) -> None:
        (watched,) = await answered(board, ref("a"))
        listener = asyncio.Event()
        watched.listeners.add(listener)
        watched.tell_news()
        assert not listener.is_set()
        setting.now_ns += 60_000_000_000
        watched.tell_news()
        assert listener.is_set()

    with_board(setting, steps)
