"""Which objects are watched, and what a restart takes over."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping

import structlog
from prometheus_client.core import Metric

from lag_scaler.addresses import SourceAddress, allowed_servers_of
from lag_scaler.metadata import InvalidMetadata, MetadataProblem, parse_lag_settings
from lag_scaler.metrics import ScalerMetrics, decision_metrics, sampling_metrics
from lag_scaler.options import ScalerOptions
from lag_scaler.sampler import ClusterSampler, FeedKey, SourceOpener
from lag_scaler.sources import open_source
from lag_scaler.state import SavedObject, SavedState, SnapshotDiscarded, restore_window, savable
from lag_scaler.watched import Calls, Watched
from lag_scaler.window import GroupWindow
from lag_scaler.wire import externalscaler_pb2 as wire
from pod_program.errors import NotReady

_MOST_DROPPED = 1_000  # whose calls are kept, because they may be seldom
_LONGEST_SAVED = 8 * 1024  # bytes; a larger object's window is saved and waits for its next call
_LONGEST_NAMES = {"namespace": 63, "name": 253}  # Kubernetes' limits
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class ScalerFull(NotReady):
    """One more object or cluster than the server takes; those that it has are still answered."""


class ObjectRegistry:
    """Belongs to the event loop; an object's key is its message, the metadata in one order."""

    def __init__(
        self,
        options: ScalerOptions,
        environment: Mapping[str, str],
        metrics: ScalerMetrics,
        *,
        now_ns: Callable[[], int],
        opener: SourceOpener = open_source,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take defaults of the metadata from ``environment``; watch nothing yet."""
        self._options, self._environment, self._metrics = options, environment, metrics
        self._now_ns, self._monotonic, self._opener = now_ns, monotonic, opener
        self._allowed_servers = allowed_servers_of(options.allowed_brokers, environment)
        if "*" in self._allowed_servers:
            _log.warning("objects may name any server; ALLOWED_BROKERS limits them")
        self._objects: dict[bytes, Watched] = {}
        self._clusters: dict[SourceAddress, ClusterSampler] = {}
        self._calls_of_dropped: dict[bytes, Calls] = {}
        self._restored: dict[str, bytes] = {}
        metrics.registry.register(self)

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
        now, idle_seconds = self._monotonic(), self._options.idle_seconds
        for key, watched in list(self._objects.items()):
            if watched.calls.have_ended(now, idle_seconds=idle_seconds):
                del self._objects[key]
                self._calls_of_dropped[_digest(key)] = watched.calls
                if len(self._calls_of_dropped) > _MOST_DROPPED:
                    self._calls_of_dropped.pop(next(iter(self._calls_of_dropped)))
                self._clusters[watched.settings.source].dismiss(watched)
                _log.info("dropped: no more calls", object=watched.name)
        for address, sampler in list(self._clusters.items()):
            if not sampler.feeds:
                self._clusters.pop(address).close()
                self._metrics.forget_cluster(address.name)

    async def saved(self) -> SavedState:
        """Return what a restart needs: the windows, and the objects that name no secret."""
        windows: dict[str, bytes] = dict(self._restored)
        for address, sampler in list(self._clusters.items()):
            for feed in list(sampler.feeds.values()):
                # While another feed was saved, this one and its sampler may have been dropped.
                is_watched = sampler.feeds.get(feed.key) is feed
                if is_watched and feed.newest_at_ns is not None:
                    windows[_identity(address, feed.key)] = await sampler.save(feed)
        refs = [(wire.ScaledObjectRef.FromString(key), it) for key, it in self._objects.items()]
        objects = [
            SavedObject(ref.namespace, ref.name, dict(ref.scalerMetadata), it.sent_change)
            for ref, it in refs
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
                self.find(ref).sent_change = item.sent_change
            except (InvalidMetadata, ScalerFull) as error:  # the server's settings have changed
                _log.warning("not restored", object=f"{item.namespace}/{item.name}", why=str(error))

    def forget_restored(self) -> None:
        """Drop the windows of the last run that no object has claimed."""
        self._restored.clear()

    def collect(self) -> Iterable[Metric]:
        """Return what is only known at a scrape; called from the endpoint's thread."""
        objects = list(self._objects.values())
        yield from sampling_metrics(list(self._clusters.values()), len(objects), self._now_ns())
        yield from decision_metrics(objects)

    def close(self) -> None:
        """Stop all sampling."""
        for sampler in self._clusters.values():
            sampler.close()

    def _admitted(self, key: bytes, ref: wire.ScaledObjectRef) -> Watched:
        full_name, options = f"{ref.namespace}/{ref.name}", self._options
        if len(self._objects) >= options.max_objects:
            raise ScalerFull(f"the lag scaler has its {options.max_objects} objects (MAX_OBJECTS)")
        for field, longest in _LONGEST_NAMES.items():
            if len(text := getattr(ref, field)) > longest:
                raise InvalidMetadata([MetadataProblem(field, text, f"{longest} characters")])
        settings = parse_lag_settings(
            dict(ref.scalerMetadata), self._environment, allowed_servers=self._allowed_servers
        )
        address = settings.source
        if address not in self._clusters:
            if len(self._clusters) >= options.max_clusters:
                most = f"{options.max_clusters} clusters (MAX_CLUSTERS)"
                raise ScalerFull(f"the lag scaler has its {most}")
            self._clusters[address] = ClusterSampler(
                address,
                open_source=self._opener,
                make_window=self._window,
                now_ns=self._now_ns,
                samples=self._metrics.samples,
                all_window_bytes=self._window_bytes,
            )
        if settings.unknown_keys:
            _log.warning("unknown metadata", object=full_name, keys=settings.unknown_keys)
        changes = self._metrics.decision_changes
        watched = Watched(full_name, settings, now_ns=self._now_ns, changes=changes)
        watched.calls = self._calls_of_dropped.pop(_digest(key), watched.calls)
        self._clusters[address].admit(watched)
        rule = settings.rule.model_dump(exclude_defaults=True)
        _log.info("watching", object=full_name, cluster=address.name, rule=rule)
        return watched

    def _window_bytes(self) -> int:
        """Return what all windows take when they are full; called from the sampling threads."""
        samplers = list(self._clusters.values())
        return sum(feed.window_bytes for each in samplers for feed in list(each.feeds.values()))

    def _window(self, address: SourceAddress, key: FeedKey) -> GroupWindow:
        """Return the window as it was saved, or an empty one if that is not to be had."""
        identity, interval = _identity(address, key), key.interval_seconds
        data = self._restored.pop(identity, None)
        if data is not None:
            try:
                return restore_window(data, interval_seconds=interval, now_ns=self._now_ns())
            except SnapshotDiscarded as reason:
                _log.warning("a saved window is not used", window=identity, why=str(reason))
        return GroupWindow(interval)


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=16).digest()


def _identity(address: SourceAddress, key: FeedKey) -> str:
    """Return what names a window in the state file."""
    group, topic = key.group_topic.group, key.group_topic.topic
    return f"{address.name} | {topic} | {group} | {key.interval_seconds:g} s"
