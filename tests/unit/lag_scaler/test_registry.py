"""Which objects are watched, who shares samples, and what a restart takes over."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest
from tests.unit.lag_scaler.fake_source import FakeCluster

from lag_scaler import sampler as cluster_sampler
from lag_scaler.metadata import InvalidMetadata
from lag_scaler.metrics import ScalerMetrics
from lag_scaler.options import ScalerOptions
from lag_scaler.registry import ObjectRegistry, ScalerFull
from lag_scaler.rule import LagUnavailable
from lag_scaler.sync_on_step import CHANGE
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

    def run(self, test: Callable[[ObjectRegistry], Awaitable[None]]) -> None:
        """Run a test's steps in an event loop, at most 60 s."""

        async def steps() -> None:
            registry = self.registry()
            try:
                await asyncio.wait_for(test(registry), 60)
            finally:
                registry.close()

        asyncio.run(steps())


Steps = Callable[[Setting, ObjectRegistry], Awaitable[None]]


def in_loop(test: Steps) -> Callable[[], None]:
    """Make a test of steps in an event loop."""

    def run() -> None:
        setting = Setting()
        setting.run(lambda registry: test(setting, registry))

    run.__doc__ = test.__doc__
    return run


def ref(name: str, **changes: str) -> wire.ScaledObjectRef:
    """Return an object as KEDA names it."""
    return wire.ScaledObjectRef(name=name, namespace="n", scalerMetadata={**METADATA, **changes})


async def answered(registry: ObjectRegistry, *refs: wire.ScaledObjectRef) -> list[Watched]:
    """Return the objects, each with its first sample."""
    found = [registry.find(item) for item in refs]
    for watched in found:
        await watched.first_answer(5)
    return found


@in_loop
async def test_objects_on_one_group_share_a_sample_and_keep_their_own_rules(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """Three objects, two groups: one batch with two entries, whatever the number of objects."""
    one, two, other = await answered(
        registry, ref("a"), ref("b", lagThreshold="5000"), ref("c", consumerGroup="audit")
    )

    assert one.decision().stretch_started_at_ns is not None
    assert two.decision().stretch_started_at_ns is None
    assert other.decision().figures.total_lag == 200
    batches = [[item.group for item in batch] for batch in setting.cluster.batches]
    assert batches == [["enrich", "audit"]]
    assert setting.cluster.opened == 1


@in_loop
async def test_an_object_nobody_asks_about_for_ten_minutes_is_dropped(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """The one that is asked about rarely stays; with the last one, the cluster's sampling ends."""
    await answered(registry, ref("asked"), ref("forgotten", consumerGroup="audit"))
    for monotonic, left in ((599, 2), (601, 1), (599 + 2.5 * 599 + 1, 0)):
        setting.monotonic = monotonic
        if monotonic == 599:
            registry.find(ref("asked"))
        registry.drop_idle()
        assert len(registry) == left
        assert f"lagbench_scaler_objects {left}.0".encode() in setting.figures.exposition()[1]
    assert b"lagbench_scaler_groups{" not in setting.figures.exposition()[1]


@in_loop
async def test_an_object_that_is_polled_seldom_keeps_its_window(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """With a pollingInterval of 900 s it is dropped once; then its lag persists at a poll."""
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


@in_loop
async def test_an_object_that_is_made_again_the_next_day_is_a_new_one(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """The time between is no distance between polls: it would be sampled for days."""
    await answered(registry, ref("a"))
    for second in (601, 86_400, 87_001):
        setting.monotonic = second
        registry.drop_idle()
        assert len(registry) == 0
        if second == 86_400:
            await answered(registry, ref("a"))


@in_loop
async def test_what_cannot_be_watched_takes_no_place(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """Wrong metadata, a server that is not allowed, and names that would be long labels."""
    long_name, long_namespace = ref("x" * 300), ref("a")
    long_namespace.namespace = "x" * 300
    for wrong, said in (
        (ref("a", lagThreshold="0"), "lagThreshold"),
        (ref("a", bootstrapServers="evil:1", team="x" * 10_000), "ALLOWED_BROKERS"),
        (long_name, "name = 'xxx"),
        (long_namespace, "namespace = 'xxx"),
    ):
        with pytest.raises(InvalidMetadata, match=said) as refusal:
            registry.find(wrong)
        assert len(str(refusal.value)) < 400
    assert len(registry) == 0


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

    setting.run(steps)


@in_loop
async def test_without_a_sample_or_with_an_old_one_there_is_no_decision(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """26 s after the newest one, at an interval of 10 s; a failure says what the cluster said.

    The same state again is no news for streams; the loss of the decision is.
    """
    (watched,) = await answered(registry, ref("a"))
    listener = asyncio.Event()
    watched.listeners.add(listener)
    setting.now_ns += 25_000_000_000
    assert watched.decision().figures.total_lag == 200
    watched.log_news()
    assert not listener.is_set()
    setting.now_ns += 1_000_000_000
    with pytest.raises(LagUnavailable, match=r"26\.0 s old"):
        watched.decision()
    watched.log_news()
    assert listener.is_set()

    setting.cluster.error = "broker down"
    (newcomer,) = await answered(registry, ref("b", consumerGroup="audit"))
    with pytest.raises(LagUnavailable, match="broker down"):
        newcomer.decision()


def test_a_restart_goes_on_with_the_stretch_before_anybody_asks() -> None:
    """The object and its window are there again; 20 s later lag persists, with one more sample.

    The target is the one that the HPA has: another would be a write and a sync.

    An object with a secret is not saved, but its window is; nor is a large one: 1,000 of 60 KB
    would fill the volume.
    """
    setting = Setting()
    secret = {"sasl": "plaintext", "usernameFromEnv": "robot", "passwordFromEnv": "hunter2"}
    saved, targets = [], list[float]()

    async def first(registry: ObjectRegistry) -> None:
        watched, *_ = await answered(
            registry,
            ref("a", syncOnStep="true"),
            ref("b", team="x" * 60_000),
            ref("c", consumerGroup="audit", **secret),
        )
        watched.sent_change = CHANGE
        targets.append(watched.send_target())
        saved.append(await registry.saved())

    async def second(registry: ObjectRegistry) -> None:
        setting.now_ns += 20_000_000_000
        registry.restore(saved[0])
        assert len(registry) == 1
        (watched,) = await answered(registry, ref("a", syncOnStep="true"))
        assert watched.decision().is_persistent
        assert watched.decision().span_seconds == 20.0
        assert [watched.target] == targets

    setting.run(first)
    setting.run(second)

    assert "hunter2" not in repr(saved)
    assert [item.name for item in saved[0].objects] == ["a"]
    groups = [f"kafka:kafka:9092 | events | {group} | 10 s" for group in ("enrich", "audit")]
    assert list(saved[0].windows) == groups


@in_loop
async def test_groups_that_are_dropped_while_the_state_is_saved_do_not_fail_it(
    setting: Setting, registry: ObjectRegistry
) -> None:
    """The first window waits for a slow sample; meanwhile both objects and their cluster go."""
    gate = threading.Event()
    await answered(registry, ref("a"), ref("b", consumerGroup="audit"))
    (sampler,) = registry._clusters.values()
    sample = asyncio.create_task(sampler.in_thread(lambda: gate.wait(30)))
    saving = asyncio.create_task(registry.saved())
    await asyncio.sleep(0)
    setting.monotonic = 601
    registry.drop_idle()
    gate.set()
    assert await sample
    assert list((await saving).windows) == ["kafka:kafka:9092 | events | enrich | 10 s"]


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

    setting.run(steps)
