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
from typing import Protocol, TypeVar, runtime_checkable

import structlog

from lagbench.core.lag_scaler import (
    GroupSample,
    GroupTopic,
    GroupWindow,
    LagRule,
    LagSource,
    SourceAddress,
    failed_sample,
    save_window,
)
from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.feed import Feed, FeedKey
from lagbench.programs.lag_scaler.metrics import ScalerMetrics
from lagbench.programs.lag_scaler.sources import SourceOpener
from lagbench.programs.lag_scaler.watched import Watched

_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)
MOST_WINDOW_BYTES = 256 * 1024**2
"""Of all windows: a caller's long windows of many partitions must not take all memory."""
_BYTES_PER_PARTITION = 20  # end and committed offset, and spare rows
Result = TypeVar("Result")
WindowMaker = Callable[[SourceAddress, FeedKey], GroupWindow]


@runtime_checkable
class _CountsRequests(Protocol):
    @property
    def broker_requests(self) -> int: ...


class ClusterSampler:
    """Keeps the windows of one cluster up to date as long as its task runs."""

    def __init__(
        self,
        address: SourceAddress,
        *,
        open_source: SourceOpener,
        make_window: WindowMaker,
        now_ns: Callable[[], int],
        metrics: ScalerMetrics,
        all_window_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        """Sample ``address``; nothing is connected before the first batch."""
        self.address = address
        self.feeds: dict[FeedKey, Feed] = {}
        self._open_source, self._make_window = open_source, make_window
        self._now_ns, self._metrics = now_ns, metrics
        self._all_window_bytes = all_window_bytes
        self._source: LagSource | None = None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="sampler")
        self._wake = asyncio.Event()
        self._new: list[tuple[Feed, Watched]] = []
        self._gone: list[tuple[Feed, LagRule]] = []
        self._problem = ""

    @property
    def broker_requests(self) -> int | None:
        """Number of requests to brokers; None if the source does not count them."""
        return self._source.broker_requests if isinstance(self._source, _CountsRequests) else None

    def admit(self, watched: Watched) -> None:
        """Begin to watch an object: its group is sampled at once if it is new."""
        key = _feed_key(watched)
        feed = self.feeds.get(key)
        if feed is None:
            window = self._make_window(self.address, key)
            feed = self.feeds[key] = Feed(key, window, newest_at_ns=window.newest_at_ns)
        feed.watchers.add(watched)
        self._new.append((feed, watched))
        self._wake.set()

    def dismiss(self, watched: Watched) -> None:
        """End the watch; rules and groups that are no longer watched are dropped."""
        feed, rule = self.feeds[_feed_key(watched)], watched.settings.rule
        feed.watchers.discard(watched)
        if not feed.watchers:
            del self.feeds[feed.key]
        elif all(other.settings.rule != rule for other in feed.watchers):
            self._gone.append((feed, rule))
            self._wake.set()

    async def run(self) -> None:
        """Sample what is due, for ever."""
        while True:
            self._wake.clear()
            began_ns = time.monotonic_ns()
            due = [feed for feed in self.feeds.values() if feed.due_ns <= began_ns]
            new, self._new = self._new, []
            gone, self._gone = self._gone, []
            if due or new or gone:
                await self.in_thread(lambda: self._work(due, new, gone))  # noqa: B023 - awaited
                ended_ns = time.monotonic_ns()
                for feed in due:
                    feed.plan_next(ended_ns)
                self._publish(due, new)
            next_ns = min((feed.due_ns for feed in self.feeds.values()), default=None)
            patience = None if next_ns is None else (next_ns - time.monotonic_ns()) / 1e9
            if patience is None or patience > 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), patience)

    async def save(self, feed: Feed) -> bytes:
        """Return a feed's window as bytes, without the rules that are no longer watched."""
        wanted = {watched.settings.rule for watched in feed.watchers}

        def work() -> bytes:
            for rule in feed.window.rules:
                if rule not in wanted:
                    feed.window.forget(rule)
            return save_window(feed.window)

        return await self.in_thread(work)

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns in the sampling thread, after what is under way there."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        """Take no more samples; the source is closed after what is under way."""
        self._pool.submit(self._close_source)
        self._pool.shutdown(wait=False)

    def _close_source(self) -> None:
        if self._source is not None:
            self._source.close()

    def _work(
        self,
        due: Sequence[Feed],
        new: Sequence[tuple[Feed, Watched]],
        gone: Sequence[tuple[Feed, LagRule]],
    ) -> None:
        """One batch; runs in the sampling thread."""
        for feed, rule in gone:
            feed.window.forget(rule)
        for feed, watched in new:
            watched.rule = feed.window.watch(watched.settings.rule)
        wanted = list(dict.fromkeys(feed.key.group_topic for feed in due))
        samples = self._sampled(wanted)
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
        if not wanted:
            return {}
        try:
            if self._source is None:
                self._source = self._open_source(self.address, self._now_ns)
            found = dict(self._source.sample(wanted))
        except Exception as error:  # a source that breaks its word must not end the sampling
            if not isinstance(error, NotReady):
                _log.error("sampling failed", cluster=self.address.name, exc_info=error)
            found = {item: failed_sample(self._now_ns(), str(error)) for item in wanted}
        self._note(found)
        return found

    def _note(self, found: dict[GroupTopic, GroupSample]) -> None:
        """Count, and log a problem when it begins, changes or ends."""
        problems = [sample.error for sample in found.values() if sample.error]
        cluster = self.address.name
        self._metrics.samples.labels(cluster, "good").inc(len(found) - len(problems))
        self._metrics.samples.labels(cluster, "failed").inc(len(problems))
        first = problems[0] if problems else ""
        if first == self._problem:
            return
        if problems:
            counts = {"failed": len(problems), "of": len(found)}
            _log.warning("samples failed", cluster=cluster, first=first, **counts)
        else:
            _log.info("samples are good again", cluster=cluster)
        self._problem = first

    def _publish(self, due: Sequence[Feed], new: Sequence[tuple[Feed, Watched]]) -> None:
        concerned = {watched for feed in due for watched in feed.watchers}
        for watched in concerned.union(watched for _, watched in new):
            watched.log_news()


def _feed_key(watched: Watched) -> FeedKey:
    settings = watched.settings
    return FeedKey(settings.group_topic, settings.rule.sampling_interval_seconds)
