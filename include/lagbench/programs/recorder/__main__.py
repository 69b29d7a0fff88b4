"""``python -m lagbench.programs.recorder``: observe a run until SIGTERM."""

from __future__ import annotations

import os
import sys

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.errors import ExitCode
from lagbench.programs.recorder.sources import parse_options
from pod_program.program import run_program

_CLOCK_LOOK_SECONDS = 1.0


def main() -> int:
    """Run the recorder; returns the exit code."""
    stopping = StopSignal.caught()  # before the imports, which take a second
    from lagbench.adapters.kafka.telemetry_topic import TelemetryFollower, TelemetryLog
    from lagbench.core.telemetry.records_of_programs import Record
    from lagbench.programs.clock_watch import ClockWatch
    from lagbench.programs.recorder.kafka_readings import NewestReadings
    from lagbench.programs.recorder.recorder_metrics import Exposition
    from lagbench.programs.recorder.sources import recorder_sources
    from pod_program.http_endpoint import HttpEndpoint, Routes, address_and_port, probe_routes

    options = parse_options(sys.argv[1:], os.environ)
    servers, topic = options.bootstrap_servers, options.telemetry_topic
    telemetry = TelemetryLog(servers, topic)
    newest = NewestReadings(interval_seconds=options.interval_seconds)

    def report(record: Record) -> None:
        telemetry.send(record)
        newest.take(record)

    clock_watch = ClockWatch(options.source, report)
    sources = recorder_sources(options, os.environ, report)
    follower = TelemetryFollower(servers, topic, newest.take, options.source)
    for thread in (*sources, follower):
        thread.start()
    exposition = Exposition(newest, aliases=options if options.has_metric_aliases else None)
    probes = probe_routes(lambda: all(source.has_read for source in sources))
    routes: Routes = {"/metrics": exposition, **probes}
    HttpEndpoint(*address_and_port(os.environ), routes)
    while not stopping.wait(_CLOCK_LOOK_SECONDS):
        clock_watch.look()
    clock_watch.look()
    for source in sources:
        source.stop()
    telemetry.flush()
    return ExitCode.PASS


if __name__ == "__main__":
    run_program(main)
