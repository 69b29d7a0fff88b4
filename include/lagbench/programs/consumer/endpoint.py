"""The pod's HTTP endpoint: /metrics for Prometheus, /ready and /healthz for the kubelet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, ClassVar

from lagbench.errors import NotReady
from lagbench.programs.consumer.reports import REBALANCE_BUCKETS_SECONDS, PodFigures

if TYPE_CHECKING:
    from prometheus_client import Metric

_TEXT = "text/plain; charset=utf-8"


class Endpoint:
    """Serves one pod's figures from a thread of its own."""

    def __init__(self, address: str, port: int, figures: PodFigures) -> None:
        """Listen; port 0 takes a free one.

        :raises NotReady: the port is taken.
        """
        exposition = _Exposition(figures)

        class Handler(_Handler):
            routes: ClassVar[dict[str, Callable[[], tuple[int, bytes]]]] = {
                "/metrics": exposition,
                "/ready": lambda: (200, b"ready\n") if figures.is_ready else (503, b"starting\n"),
                "/healthz": lambda: (200, b"ok\n"),
            }

        try:
            self._server = ThreadingHTTPServer((address, port), Handler)
        except OSError as error:
            raise NotReady(
                f"cannot serve metrics on {address}:{port}: {error.strerror}; set PORT_METRICS"
            ) from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="endpoint", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    routes: ClassVar[dict[str, Callable[[], tuple[int, bytes]]]] = {}

    def do_GET(self) -> None:
        """Answer one of the routes."""
        answer = self.routes.get(self.path.partition("?")[0])
        status, body = answer() if answer else (404, b"not found\n")
        self.send_response(status)
        self.send_header("Content-Type", _TEXT)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent: a probe every second is no news."""


class _Exposition:
    """The figures in Prometheus' text format.

    The client library is imported at the first scrape: it costs 50 ms, which a pod's start
    would otherwise pay.
    """

    def __init__(self, figures: PodFigures) -> None:
        self._figures = figures

    def __call__(self) -> tuple[int, bytes]:
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return 200, generate_latest(registry)

    def collect(self) -> Iterator[Metric]:
        """Yield the lab's five metrics under exactly its names."""
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            HistogramMetricFamily,
        )

        figures = self._figures
        rate, inflight = figures.consume_rate, figures.inflight
        yield GaugeMetricFamily("consume_rate", "Records processed per second", value=rate)
        yield GaugeMetricFamily("inflight", "Writes begun and not ended", value=inflight)
        yield GaugeMetricFamily(
            "assigned_partitions", "Partitions held", value=figures.assigned_partitions
        )
        yield CounterMetricFamily("rebalances", "Rebalances seen", value=figures.rebalances_total)
        seconds = list(figures.rebalance_seconds)
        buckets = [
            (str(limit), float(sum(value <= limit for value in seconds)))
            for limit in REBALANCE_BUCKETS_SECONDS
        ]
        yield HistogramMetricFamily(
            "rebalance_duration_seconds",
            "From the first partition given up until the new assignment is in force",
            buckets=[*buckets, ("+Inf", float(len(seconds)))],
            sum_value=sum(seconds),
        )
