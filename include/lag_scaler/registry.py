"""Which objects are watched, and what a restart takes over."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import structlog
from prometheus_client.core import Metric

from lag_scaler.addresses import SourceAddress
from lag_scaler.metadata import (
    InvalidMetadata,
    MetadataProblem,
    parse_lag_settings,
)
from lag_scaler.metrics import Calls, ScalerMetrics, Watched
from lag_scaler.sampler import ClusterSampler, FeedKey, SourceOpener
from lag_scaler.scrape import decision_metrics, sampling_metrics
from lag_scaler.sources import open_source
from lag_scaler.state import SavedObject, SavedState, SnapshotDiscarded, restore_window, savable
from lag_scaler.window import GroupWindow
from lag_scaler.wire import externalscaler_pb2 as wire
from pod_program.errors import NotReady

_Key = bytes  # the object's serialization, with its metadata in one order

# Refusals are kept to log each once, calls of dropped objects because they may be seldom.
_KEPT_OF_EACH = 1_000

_LONGEST_SAVED = 8 * 1024  # bytes; a larger object's window is saved and waits for its next call

_LONGEST_NAMES = {"namespace": 63, "name": 253}  # Kubernetes' limits

_Kept = TypeVar("_Kept")

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ScalerFull(NotReady):
    """One more object or cluster than the server takes; those that it has are still answered."""


class ObjectRegistry:
    """Belongs to the event loop."""

    def __init__(
        self,
        environment: Mapping[str, str],
        metrics: ScalerMetrics,
        *,
        now_ns: Callable[[], int],
        idle_seconds: float,
        max_objects: int,
        max_clusters: int,
        allowed_servers: Sequence[str] = ("*",),
        opener: SourceOpener = open_source,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take defaults of the metadata from ``environment``; watch nothing yet."""
        self._environment, self._metrics = environment, metrics
        self._now_ns, self._monotonic, self._opener = now_ns, monotonic, opener
        self._idle_seconds, self._allowed_servers = idle_seconds, allowed_servers
        self._max_objects, self._max_clusters = max_objects, max_clusters
        self._objects: dict[_Key, Watched] = {}
        self._clusters: dict[SourceAddress, tuple[ClusterSampler, asyncio.Task[None]]] = {}
        self._refused: OrderedDict[bytes, None] = OrderedDict()
        self._calls_of_dropped: OrderedDict[bytes, Calls] = OrderedDict()
        self._restored: dict[str, bytes] = {}
        metrics.collect_from(self._collected)

    def __len__(self) -> int:
        return len(self._objects)

    def find(self, ref: wire.ScaledObjectRef) -> Watched:
        """Return the object; one that is new is watched from now on.

        :raises InvalidMetadata: its metadata cannot be used.
        :raises ScalerFull: it would be one object or cluster too many.
        """
        key = ref.SerializeToString(deterministic=True)
        watched = self._objects.get(key)
        if watched is None:
            watched = self._objects[key] = self._admitted(key, ref)
        self.touch(watched)
        return watched

    def touch(self, watched: Watched) -> None:
        """Note that an object was requested."""
        watched.calls.take(self._monotonic())

    def drop_idle(self) -> None:
        """Drop the objects that were not requested for too long, and clusters without any."""
        now = self._monotonic()
        for key, watched in list(self._objects.items()):
            if watched.calls.have_ended(now, idle_seconds=self._idle_seconds):
                del self._objects[key]
                _keep(self._calls_of_dropped, key, watched.calls)
                self._clusters[watched.settings.source][0].dismiss(watched)
                _log.info("dropped: no more calls", object=watched.name)
        for address, (sampler, task) in list(self._clusters.items()):
            if not sampler.feeds:
                del self._clusters[address]
                task.cancel()
                sampler.close()
                self._metrics.forget_cluster(address.name)

    async def saved(self) -> SavedState:
        """Return what a restart needs: the windows, and the objects that name no secret."""
        windows: dict[str, bytes] = dict(self._restored)
        for address, (sampler, _) in list(self._clusters.items()):
            for feed in list(sampler.feeds.values()):
                # While another feed was saved, this one and its sampler may have been dropped.
                is_watched = sampler.feeds.get(feed.key) is feed
                if is_watched and feed.newest_at_ns is not None:
                    windows[_identity(address, feed.key)] = await sampler.save(feed)
        refs = map(wire.ScaledObjectRef.FromString, list(self._objects))
        objects = [
            SavedObject(ref.namespace, ref.name, dict(ref.scalerMetadata))
            for ref in refs
            if savable(ref.scalerMetadata) and ref.ByteSize() <= _LONGEST_SAVED
        ]
        return SavedState(saved_at_ns=self._now_ns(), objects=objects, windows=windows)

    def restore(self, state: SavedState) -> None:
        """Go on where ``state`` was taken: its objects are sampled before KEDA asks again.

        A sample only when KEDA asks would come up to 30 s later: a gap that ends every stretch.
        """
        self._restored = dict(state.windows)
        for item in state.objects:
            ref = wire.ScaledObjectRef(
                namespace=item.namespace, name=item.name, scalerMetadata=item.metadata
            )
            try:
                self.find(ref)
            except (InvalidMetadata, ScalerFull) as error:  # the server's settings have changed
                _log.warning("not restored", object=f"{item.namespace}/{item.name}", why=str(error))

    def forget_restored(self) -> None:
        """Drop the windows of the last run that no object has claimed."""
        self._restored.clear()

    def close(self) -> None:
        """Stop all sampling."""
        for sampler, task in self._clusters.values():
            task.cancel()
            sampler.close()

    def _admitted(self, key: _Key, ref: wire.ScaledObjectRef) -> Watched:
        full_name = f"{ref.namespace}/{ref.name}"
        if len(self._objects) >= self._max_objects:
            raise ScalerFull(f"the lag scaler has its {self._max_objects} objects (MAX_OBJECTS)")
        try:
            for field, longest in _LONGEST_NAMES.items():
                if len(getattr(ref, field)) > longest:
                    problem = MetadataProblem(field, getattr(ref, field), f"{longest} characters")
                    raise InvalidMetadata([problem])  # noqa: TRY301 - logged as any other
            settings = parse_lag_settings(
                dict(ref.scalerMetadata), self._environment, allowed_servers=self._allowed_servers
            )
        except InvalidMetadata as error:
            if _digest(key) not in self._refused:
                _log.warning("metadata refused", object=full_name, why=str(error))
            _keep(self._refused, key, None)
            raise
        is_new = settings.source not in self._clusters
        if is_new and len(self._clusters) >= self._max_clusters:
            raise ScalerFull(f"the lag scaler has its {self._max_clusters} clusters (MAX_CLUSTERS)")
        if settings.unknown_keys:
            _log.warning("unknown metadata", object=full_name, keys=settings.unknown_keys)
        watched = Watched(full_name, settings, now_ns=self._now_ns, metrics=self._metrics)
        watched.calls = self._calls_of_dropped.pop(_digest(key), watched.calls)
        self._sampler(settings.source).admit(watched)
        rule = settings.rule.model_dump(exclude_defaults=True)
        _log.info("watching", object=full_name, cluster=settings.source.name, rule=rule)
        return watched

    def _sampler(self, address: SourceAddress) -> ClusterSampler:
        if address not in self._clusters:
            sampler = ClusterSampler(
                address,
                open_source=self._opener,
                make_window=self._window,
                now_ns=self._now_ns,
                metrics=self._metrics,
                all_window_bytes=self._window_bytes,
            )
            self._clusters[address] = (sampler, asyncio.create_task(sampler.run()))
        return self._clusters[address][0]

    def _window_bytes(self) -> int:
        """Return what all windows take when they are full; called from the sampling threads."""
        samplers = [sampler for sampler, _ in list(self._clusters.values())]
        return sum(feed.window_bytes for each in samplers for feed in list(each.feeds.values()))

    def _window(self, address: SourceAddress, key: FeedKey) -> GroupWindow:
        """Return the window as it was saved, or an empty one if that is not to be had."""
        identity, interval = _identity(address, key), key.interval_seconds
        data = self._restored.pop(identity, None)
        if data is not None:
            try:
                return restore_window(
                    data, identity=identity, interval_seconds=interval, now_ns=self._now_ns()
                )
            except SnapshotDiscarded as reason:
                _log.warning("a saved window is not used", window=identity, why=str(reason))
        return GroupWindow(identity, interval)

    def _collected(self) -> Iterable[Metric]:
        """Return what is only known at a scrape; called from the endpoint's thread."""
        samplers = [sampler for sampler, _ in list(self._clusters.values())]
        objects = list(self._objects.values())
        yield from sampling_metrics(samplers, len(objects), self._now_ns())
        yield from decision_metrics(objects)


def _digest(key: _Key) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _keep(kept: OrderedDict[bytes, _Kept], key: _Key, value: _Kept) -> None:
    """Keep a value for an object, and forget the oldest of too many."""
    kept[_digest(key)] = value
    kept.move_to_end(_digest(key))
    if len(kept) > _KEPT_OF_EACH:
        kept.popitem(last=False)


def _identity(address: SourceAddress, key: FeedKey) -> str:
    """Return what names a window in the state file."""
    group, topic = key.group_topic.group, key.group_topic.topic
    return f"{address.name} | {topic} | {group} | {key.interval_seconds:g} s"
