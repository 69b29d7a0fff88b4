"""Sample one cluster: every group that is due in one batch, in a thread of its own.

That thread also does all the work on windows and rules, one batch after another, so they need no
lock and the event loop reads only finished decisions.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

import structlog
from prometheus_client import Counter

from lag_scaler.addresses import SourceAddress
from lag_scaler.keda_values import NS_PER_SECOND
from lag_scaler.metadata import LagSettings
from lag_scaler.offsets import GroupSample, GroupTopic, failed_sample
from lag_scaler.sources import LagSource
from lag_scaler.state import save_window
from lag_scaler.watched import Watched
from lag_scaler.window import GroupWindow
from pod_program.errors import NotReady

MOST_WINDOW_BYTES = 256 * 1024**2
"""Of all windows: a caller's long windows of many partitions must not take all memory."""
_BYTES_PER_PARTITION = 16  # end and committed offset
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)
Result = TypeVar("Result")
SourceOpener = Callable[[SourceAddress, Callable[[], int]], LagSource]


class FeedKey(NamedTuple):
    """The properties that objects of one cluster must share to use the same samples and window."""

    group_topic: GroupTopic
    interval_seconds: float

    @classmethod
    def of(cls, settings: LagSettings) -> FeedKey:
        """Return the key of an object's settings."""
        return cls(settings.group_topic, settings.rule.sampling_interval_seconds)


@dataclass(slots=True, eq=False)
class Feed:
    """One group and topic, sampled at one interval.

    The window is touched by the sampling thread only, which sets ``newest_at_ns`` after it.
    ``due_ns``: on the monotonic clock; a new feed is due at once. ``window_bytes``: what the window
    takes when it is full, 0 before the first sample.
    """

    key: FeedKey
    window: GroupWindow
    newest_at_ns: int | None = None
    due_ns: int = 0
    window_bytes: int = 0
    watchers: set[Watched] = field(default_factory=set)

    def plan_next(self, now_ns: int) -> None:
        """Set the next sample to the next multiple of the interval.

        All feeds with equal intervals, and every second one of half the interval, are then due
        together and share a batch.
        """
        interval_ns = round(self.key.interval_seconds * NS_PER_SECOND)
        self.due_ns = (now_ns // interval_ns + 1) * interval_ns

    def fit_rules(self) -> None:
        """Evaluate the rules of the watchers, and no others; objects with equal ones share it."""
        watchers = list(self.watchers)
        for watched in watchers:
            watched.rule = self.window.watch(watched.settings.rule)
        for rule in set(self.window.watched) - {watched.settings.rule for watched in watchers}:
            self.window.forget(rule)


class ClusterSampler:
    """Keeps the windows of one cluster up to date until it is closed."""

    def __init__(
        self,
        address: SourceAddress,
        *,
        open_source: SourceOpener,
        make_window: Callable[[SourceAddress, FeedKey], GroupWindow],
        now_ns: Callable[[], int],
        samples: Counter,
        all_window_bytes: Callable[[], int],
    ) -> None:
        """Sample ``address``; nothing is connected before the first batch."""
        self.address = address
        self.feeds: dict[FeedKey, Feed] = {}
        self._open_source, self._make_window = open_source, make_window
        self._now_ns, self._samples = now_ns, samples
        self._all_window_bytes = all_window_bytes
        self._source: LagSource | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampler")
        self._wake = asyncio.Event()
        self._problem = ""
        self._task = asyncio.create_task(self._run())

    @property
    def broker_requests(self) -> int | None:
        """Number of requests to brokers; None if the source does not count them."""
        return getattr(self._source, "broker_requests", None)

    def admit(self, watched: Watched) -> None:
        """Begin to watch an object: its group is sampled at once if it is new."""
        key = FeedKey.of(watched.settings)
        if key not in self.feeds:
            window = self._make_window(self.address, key)
            self.feeds[key] = Feed(key, window, newest_at_ns=window.newest_at_ns)
        self.feeds[key].watchers.add(watched)
        self._wake.set()

    def dismiss(self, watched: Watched) -> None:
        """End the watch; groups that are no longer watched are dropped."""
        feed = self.feeds[FeedKey.of(watched.settings)]
        feed.watchers.discard(watched)
        if not feed.watchers:
            del self.feeds[feed.key]

    async def save(self, feed: Feed) -> bytes:
        """Return a feed's window as bytes."""

        def work() -> bytes:
            feed.fit_rules()
            return save_window(feed.window)

        return await self.in_thread(work)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns in the sampling thread, after what is under way there."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Take no more samples; the source is closed after what is under way."""
        self._task.cancel()
        self._pool.submit(lambda: self._source.close() if self._source is not None else None)
        self._pool.shutdown(wait=False)

    async def _run(self) -> None:
        """Sample what is due, for ever."""
        while True:
            self._wake.clear()
            began_ns = time.monotonic_ns()
            due = [feed for feed in self.feeds.values() if feed.due_ns <= began_ns]
            new = [w for feed in self.feeds.values() for w in feed.watchers if w.rule is None]
            if due or new:
                changed = [self.feeds[FeedKey.of(watched.settings)] for watched in new]
                await self.in_thread(lambda: self._work(due, changed))  # noqa: B023 - awaited
                for feed in due:
                    feed.plan_next(time.monotonic_ns())
                for watched in {w for feed in due for w in feed.watchers}.union(new):
                    watched.log_news()
            next_ns = min((feed.due_ns for feed in self.feeds.values()), default=None)
            patience = None if next_ns is None else (next_ns - time.monotonic_ns()) / 1e9
            if patience is None or patience > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), patience)

    def _work(self, due: Sequence[Feed], changed: Sequence[Feed]) -> None:
        """One batch; runs in the sampling thread."""
        for feed in {*due, *changed}:
            feed.fit_rules()
        samples = self._sampled(list(dict.fromkeys(feed.key.group_topic for feed in due)))
        for feed in due:
            feed.window.add(self._fitting(feed, samples[feed.key.group_topic]))
            feed.newest_at_ns = feed.window.newest_at_ns

    def _fitting(self, feed: Feed, sample: GroupSample) -> GroupSample:
        """Return the sample; a failed one if its window is too large beside all others.

        The partitions of a topic, and so the size, are known with the first sample. A window that
        has its room keeps it: an object with a longer one on the same group does not end it.
        """
        history, bytes_each = feed.window.history, sample.partitions.size * _BYTES_PER_PARTITION
        needed = history.depth * bytes_each
        if needed <= feed.window_bytes or sample.error:
            return sample
        if self._all_window_bytes() - feed.window_bytes + needed > MOST_WINDOW_BYTES:
            problem = (
                f"no room for {history.depth} samples of {sample.partitions.size} partitions: all "
                f"windows have {MOST_WINDOW_BYTES >> 20} MiB; reduce windowSize"
            )
            if not feed.window_bytes:
                return failed_sample(sample.at_ns, problem)
            _log.warning("window not extended", group=feed.key.group_topic.group, why=problem)
            history.set_depth(max(2, feed.window_bytes // bytes_each))
            return sample
        feed.window_bytes = needed
        return sample

    def _sampled(self, wanted: Sequence[GroupTopic]) -> dict[GroupTopic, GroupSample]:
        """Read, count, and log a problem when it begins, changes or ends."""
        if not wanted:
            return {}
        cluster = self.address.name
        try:
            if self._source is None:
                self._source = self._open_source(self.address, self._now_ns)
            found = dict(self._source.sample(wanted))
        except Exception as error:  # a source that breaks its word must not end the sampling
            if not isinstance(error, NotReady):
                _log.error("sampling failed", cluster=cluster, exc_info=error)
            found = {item: failed_sample(self._now_ns(), str(error)) for item in wanted}
        problems = [sample.error for sample in found.values() if sample.error]
        self._samples.labels(cluster, "good").inc(len(found) - len(problems))
        self._samples.labels(cluster, "failed").inc(len(problems))
        first = problems[0] if problems else ""
        if first != self._problem and problems:
            counts = {"failed": len(problems), "of": len(found)}
            _log.warning("samples failed", cluster=cluster, first=first, **counts)
        elif first != self._problem:
            _log.info("samples are good again", cluster=cluster)
        self._problem = first
        return found
