"""``python -m lagbench.programs.spark_daemon``: run Spark's master or a worker until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when the daemon ends by itself.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from typing import Any

from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.telemetry.records_of_programs import (
    PodStarted,
    PodStopped,
    Record,
    SigtermReceived,
)
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
    is_worker, clock = settings.role == "worker", SteadyClock()
    telemetry = TelemetryLog(settings.bootstrap_servers, settings.telemetry_topic)
    watch = ClockWatch(settings.pod_name, telemetry.send)

    def report(kind: type[Record], **fields: Any) -> None:
        """Report a worker's life; its tasks report themselves, and a master has none."""
        if is_worker:
            telemetry.send(kind(at=clock.now_ns(), source=settings.pod_name, **fields))

    report(
        PodStarted,
        process_started_at=process_started_at(),
        balancer=settings.balancer,
        concurrency=settings.concurrency,
        process_ms=settings.mean_process_ms,
        cpu_ms=settings.cpu_ms,
        instance_id=None,
        start_cpu_seconds=time.process_time(),
    )
    while not stopping.wait(_LOOK_SECONDS):
        if daemon.exit_code is not None:
            raise NotReady(f"Spark's {settings.role} ended with exit code {daemon.exit_code}")
        if is_worker:
            watch.look()
    report(SigtermReceived, queued=None, in_flight=None)
    are_done = daemon.end(
        decommissions=is_worker and settings.decommission,
        within_seconds=settings.shutdown_timeout_seconds,
    )
    is_graceful = settings.decommission and are_done
    unknown = {"abandoned": None, "processed_total": None}
    report(PodStopped, reason="SIGTERM", is_graceful=is_graceful, **unknown)
    telemetry.flush(_TELEMETRY_SECONDS)
    return int(ExitCode.PASS)


if __name__ == "__main__":
    run_program(main)
