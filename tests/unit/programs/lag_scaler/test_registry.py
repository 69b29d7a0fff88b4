"""Which objects are watched, who shares samples, and what a restart takes over."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.unit.programs.lag_scaler.fake_source import FakeCluster

from lag_scaler import sampler as cluster_sampler
from lag_scaler.metadata import InvalidMetadata
from lag_scaler.metrics import ScalerMetrics
from lag_scaler.options import ScalerOptions
from lag_scaler.registry import ObjectRegistry, ScalerFull
from lag_scaler.rule import LagUnavailable
from lag_scaler.state import SavedState
from lag_scaler.watched import Watched
from lag_scaler.wire import externalscaler_pb2 as wire

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
    """A registry over a fake cluster, with clocks that a test moves."""

    cluster: FakeCluster = field(default_factory=FakeCluster)
    figures: ScalerMetrics = field(default_factory=ScalerMetrics)
    monotonic: float = 0.0
    now_ns: int = field(default_factory=time.time_ns)

    def registry(self) -> ObjectRegistry:
        """Return a new registry."""
        return ObjectRegistry(
            ScalerOptions(max_objects=4, max_clusters=2, allowed_brokers="*:9092"),
            {},
            self.figures,
            now_ns=lambda: self.now_ns,
            opener=self.cluster.open,
            monotonic=lambda: self.monotonic,
        )


def ref(name: str, **changes: str) -> wire.ScaledObjectRef:
    """Return an object as KEDA names it."""
    return wire.ScaledObjectRef(name=name, namespace="n", scalerMetadata={**METADATA, **changes})


def with_registry(setting: Setting, test: Callable[[ObjectRegistry], Awaitable[None]]) -> None:
    """Run a test's steps in an event loop, at most 60 s."""

    async def run() -> None:
        registry = setting.registry()
        try:
            await asyncio.wait_for(test(registry), 60)
        finally:
            registry.close()

    asyncio.run(run())


async def answered(registry: ObjectRegistry, *refs: wire.ScaledObjectRef) -> list[Watched]:
    """Return the objects, each with its first sample."""
    found = [registry.find(item) for item in refs]
    for watched in found:
        await watched.first_answer(5)
    return found


def test_objects_on_one_group_share_a_sample_and_keep_their_own_rules() -> None:
    """Three objects, two groups: one batch with two entries, whatever the number of objects."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        one, two, other = await answered(
            registry,
            ref("a"),
            ref("b", lagThreshold="5000"),
            ref("c", consumerGroup="audit"),
        )
        assert one.decision().stretch_started_at_ns is not None
        assert two.decision().stretch_started_at_ns is None
        assert other.decision().figures.total_lag == 200

    with_registry(setting, steps)

    assert [[item.group for item in batch] for batch in setting.cluster.batches] == [
        ["enrich", "audit"]
    ]
    assert setting.cluster.opened == 1


def test_an_object_nobody_asks_about_for_ten_minutes_is_dropped() -> None:
    """The one that is asked about rarely stays; with the last one, the cluster's sampling ends."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("asked"), ref("forgotten", consumerGroup="audit"))
        setting.monotonic = 599
        registry.find(ref("asked"))
        registry.drop_idle()
        assert len(registry) == 2
        setting.monotonic = 601
        registry.drop_idle()
        assert len(registry) == 1
        assert b"lagbench_scaler_objects 1.0" in setting.figures.exposition()[1]
        setting.monotonic = 599 + 2.5 * 599 + 1
        registry.drop_idle()
        assert len(registry) == 0
        assert b"lagbench_scaler_groups{" not in setting.figures.exposition()[1]

    with_registry(setting, steps)


def test_an_object_that_is_polled_seldom_keeps_its_window() -> None:
    """With a pollingInterval of 900 s it is dropped once; then its lag persists at a poll."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        setting.monotonic = 601
        registry.drop_idle()
        assert len(registry) == 0
        setting.monotonic = 900
        (watched,) = await answered(registry, ref("a"))
        setting.monotonic = 1_799
        registry.drop_idle()
        assert registry.find(ref("a")) is watched
        setting.monotonic += 2.5 * 900 + 1
        registry.drop_idle()
        assert len(registry) == 0

    with_registry(setting, steps)


def test_an_object_that_is_made_again_the_next_day_is_a_new_one() -> None:
    """The time between is no distance between polls: it would be sampled for days."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        for second in (601, 86_400, 87_001):
            setting.monotonic = second
            registry.drop_idle()
            assert len(registry) == 0
            if second == 86_400:
                await answered(registry, ref("a"))

    with_registry(setting, steps)


def test_refused_metadata_is_not_watched() -> None:
    """What cannot be sampled takes no place, however often it is asked about."""

    async def steps(registry: ObjectRegistry) -> None:
        for _ in range(2):
            with pytest.raises(InvalidMetadata, match="lagThreshold"):
                registry.find(ref("a", lagThreshold="0"))
        assert len(registry) == 0

    with_registry(Setting(), steps)


@pytest.mark.parametrize("field", ["namespace", "name"])
def test_names_that_kubernetes_cannot_have_are_refused(field: str) -> None:
    """They are labels of eight series each."""

    async def steps(registry: ObjectRegistry) -> None:
        long = ref("a")
        setattr(long, field, "x" * 300)
        with pytest.raises(InvalidMetadata, match=f"{field} = 'xxx"):
            registry.find(long)

    with_registry(Setting(), steps)


@pytest.mark.parametrize(
    ("known", "one_more"),
    [
        (["a", "b", "c", "d"], ref("e", bootstrapServers="kafka-False:9092")),
        (["a", "b"], ref("c", bootstrapServers="third:9092")),
        (["a", "b"], ref("c", sasl="plaintext", username="u", passwordFromEnv="another")),
    ],
    ids=["object", "cluster", "login"],
)
def test_one_more_than_the_server_takes_is_refused_and_the_others_stay(
    known: list[str], one_more: wire.ScaledObjectRef
) -> None:
    """When one is dropped there is a place; a login of its own is a client of its own."""
    setting = Setting()
    refs = [ref(name, bootstrapServers=f"kafka-{name == 'b'}:9092") for name in known]

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, *refs)
        with pytest.raises(ScalerFull, match="MAX_"):
            registry.find(one_more)
        setting.monotonic = 599
        watched = [registry.find(item) for item in refs[:1]]
        setting.monotonic = 601
        registry.drop_idle()
        assert registry.find(refs[0]) is watched[0]
        await answered(registry, one_more)
        assert len(registry) == 2
        assert b'samples_total{cluster="kafka:kafka-true' not in setting.figures.exposition()[1]

    with_registry(setting, steps)


def test_a_failed_first_sample_is_an_error_with_the_reason() -> None:
    """There is no decision, and it says what the cluster said."""
    setting = Setting(FakeCluster(error="broker down"))

    async def steps(registry: ObjectRegistry) -> None:
        (watched,) = await answered(registry, ref("a"))
        with pytest.raises(LagUnavailable, match="broker down"):
            watched.decision()

    with_registry(setting, steps)


def test_an_old_sample_is_an_error_and_no_decision() -> None:
    """26 s after the newest sample, at an interval of 10 s, nothing is said any more."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        (watched,) = await answered(registry, ref("a"))
        setting.now_ns += 25_000_000_000
        assert watched.decision().figures.total_lag == 200
        setting.now_ns += 1_000_000_000
        with pytest.raises(LagUnavailable, match=r"26\.0 s old"):
            watched.decision()

    with_registry(setting, steps)


def test_a_restart_goes_on_with_the_stretch_before_anybody_asks() -> None:
    """The object and its window are there again; 20 s later lag persists, with one more sample."""
    setting = Setting()
    saved: list[SavedState] = []

    async def first(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        saved.append(await registry.saved())

    async def second(registry: ObjectRegistry) -> None:
        setting.now_ns += 20_000_000_000
        registry.restore(saved[0])
        assert len(registry) == 1
        (watched,) = await answered(registry, ref("a"))
        assert watched.decision().is_persistent
        assert watched.decision().span_seconds == 20.0

    with_registry(setting, first)
    with_registry(setting, second)


def test_groups_that_are_dropped_while_the_state_is_saved_do_not_fail_it() -> None:
    """The first window waits for a slow sample; meanwhile both objects and their cluster go."""
    setting = Setting()
    gate = threading.Event()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"), ref("b", consumerGroup="audit"))
        (sampler,) = registry._clusters.values()
        sample = asyncio.create_task(sampler.in_thread(lambda: gate.wait(30)))
        saving = asyncio.create_task(registry.saved())
        await asyncio.sleep(0)
        setting.monotonic = 601
        registry.drop_idle()
        gate.set()
        assert await sample
        state = await saving
        assert list(state.windows) == ["kafka:kafka:9092 | events | enrich | 10 s"]

    with_registry(setting, steps)


def test_an_object_with_a_secret_is_not_saved_but_its_window_is() -> None:
    """The state names neither the object nor the password; the window waits for KEDA's call."""
    setting = Setting()
    secret = {"sasl": "plaintext", "usernameFromEnv": "robot", "passwordFromEnv": "hunter2"}

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a", **secret))
        state = await registry.saved()
        assert "hunter2" not in repr(state)
        assert not state.objects
        assert list(state.windows) == ["kafka:kafka:9092 | events | enrich | 10 s"]

    with_registry(setting, steps)


def test_windows_that_do_not_fit_beside_the_others_get_no_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two partitions: 30 samples take 960 bytes; with a longer window on it, one stays so."""
    monkeypatch.setattr(cluster_sampler, "MOST_WINDOW_BYTES", 1_920)
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        (known,) = await answered(registry, ref("a"))
        large, fitting = await answered(
            registry,
            ref("b", consumerGroup="audit", windowSize="31"),
            ref("c", consumerGroup="bill"),
        )
        with pytest.raises(LagUnavailable, match="reduce windowSize"):
            large.decision()
        assert fitting.decision().figures.total_lag == 200
        await answered(registry, ref("d", windowSize="2000"))
        (sampler,) = registry._clusters.values()
        feed = next(feed for feed in sampler.feeds.values() if known in feed.watchers)
        setting.now_ns += 10_000_000_000
        await sampler.in_thread(lambda: sampler._work([feed], []))
        assert feed.window.history.depth == 30
        assert known.decision().span_seconds == 10

    with_registry(setting, steps)


def test_a_large_object_is_not_saved() -> None:
    """1,000 of 60 KB would fill the volume, and nobody's window could be saved."""

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"), ref("b", team="x" * 60_000))
        assert [saved.name for saved in (await registry.saved()).objects] == ["a"]

    with_registry(Setting(), steps)


def test_streams_are_woken_when_something_has_changed_and_only_then() -> None:
    """The same state again is no news; the loss of the decision is."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        (watched,) = await answered(registry, ref("a"))
        listener = asyncio.Event()
        watched.listeners.add(listener)
        watched.log_news()
        assert not listener.is_set()
        setting.now_ns += 60_000_000_000
        watched.log_news()
        assert listener.is_set()

    with_registry(setting, steps)
