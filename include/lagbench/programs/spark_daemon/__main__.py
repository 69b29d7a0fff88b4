"""``python -m lagbench.programs.spark_daemon``: run Spark's master or a worker until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when the daemon ends by itself.
"""

from __future__ import annotations

import logging
import os
import sys
import time

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.telemetry.records_of_programs import PodStarted, PodStopped, SigtermReceived
from lagbench.errors import ExitCode, NotReady
from lagbench.programs.clock_watch import ClockWatch
from lagbench.programs.spark_daemon.daemon import Daemon, DaemonSettings, java_of, parse_settings
from pod_program.http_endpoint import HttpEndpoint, address_and_port, probe_routes
from pod_program.program import run_program
from pod_program.steady_clock import SteadyClock, process_started_at

_LOOK_SECONDS = 0.5
_TELEMETRY_SECONDS = 5.0

log = logging.getLogger("lagbench.programs.spark_daemon")


def main() -> int:
    """Run as a program."""
    stopping = StopSignal.caught()
    settings = parse_settings(sys.argv[1:], os.environ)
    log.info("Java: %s", java_of(os.environ))
    return _run(settings, stopping)


def _run(settings: DaemonSettings, stopping: StopSignal) -> int:
    daemon = Daemon(settings, os.environ)  # before any thread
    HttpEndpoint(*address_and_port(os.environ), probe_routes(daemon.is_ready))
    reports = _Reports(settings) if settings.role == "worker" else None
    if reports is not None:
        reports.started()
    while not stopping.wait(_LOOK_SECONDS):
        if daemon.exit_code is not None:
            raise NotReady(f"Spark's {settings.role} ended with exit code {daemon.exit_code}")
        if reports is not None:
            reports.look()
    if reports is not None:
        reports.asked_to_stop()
    are_done = daemon.end(
        decommissions=settings.role == "worker" and settings.decommission,
        within_seconds=settings.shutdown_timeout_seconds,
    )
    if reports is not None:
        reports.stopped(is_graceful=settings.decommission and are_done)
    return int(ExitCode.PASS)


class _Reports:
    """The telemetry of a worker; its tasks report themselves."""

    def __init__(self, settings: DaemonSettings) -> None:
        self._settings = settings
        self._log = TelemetryLog(settings.bootstrap_servers, settings.telemetry_topic)
        self._clock = SteadyClock()
        self._watch = ClockWatch(settings.pod_name, self._log.send)

    def started(self) -> None:
        settings = self._settings
        record = PodStarted(
            at=self._clock.now_ns(),
            source=settings.pod_name,
            process_started_at=process_started_at(),
            balancer=settings.balancer,
            concurrency=settings.concurrency,
            process_ms=settings.mean_process_ms,
            cpu_ms=settings.cpu_ms,
            instance_id=None,
            start_cpu_seconds=time.process_time(),
        )
        self._log.send(record)

    def look(self) -> None:
        self._watch.look()

    def asked_to_stop(self) -> None:
        source, at = self._settings.pod_name, self._clock.now_ns()
        self._log.send(SigtermReceived(at=at, source=source, queued=None, in_flight=None))

    def stopped(self, *, is_graceful: bool) -> None:
        record = PodStopped(
            at=self._clock.now_ns(),
            source=self._settings.pod_name,
            reason="SIGTERM",
            abandoned=None,
            processed_total=None,
            is_graceful=is_graceful,
        )
        self._log.send(record)
        self._log.flush(_TELEMETRY_SECONDS)


if __name__ == "__main__":
    run_program(main)
