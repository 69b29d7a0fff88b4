"""``python -m lagbench.programs.recorder``: observe a run until SIGTERM."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.errors import ExitCode
from lagbench.programs.recorder.recorder_settings import RecorderOptions, parse_options
from pod_program.program import run_program

_CLOCK_LOOK_SECONDS = 1.0


def main() -> int:
    """Run the recorder; returns the exit code."""
    stopping = StopSignal.caught()
    _run(parse_options(sys.argv[1:], os.environ), os.environ, stopping)
    return ExitCode.PASS


def _run(options: RecorderOptions, environment: Mapping[str, str], stopping: StopSignal) -> None:
    from lagbench.adapters.kafka.telemetry_topic import TelemetryLog
    from lagbench.core.telemetry.records_of_programs import Record
    from lagbench.programs.clock_watch import ClockWatch
    from lagbench.programs.recorder.kafka_readings import NewestReadings
    from lagbench.programs.recorder.recorder_metrics import Exposition, ObservedNames
    from lagbench.programs.recorder.sources import recorder_sources
    from lagbench.programs.telemetry_follower import TelemetryFollower
    from pod_program.http_endpoint import HttpEndpoint, Routes, address_and_port, probe_routes

    servers, topic = options.bootstrap_servers, options.telemetry_topic
    telemetry = TelemetryLog(servers, topic)
    newest = NewestReadings(interval_seconds=options.interval_seconds)

    def report(record: Record) -> None:
        telemetry.send(record)
        newest.take(record)

    clock_watch = ClockWatch(options.source, report)
    sources = recorder_sources(options, environment, report)
    follower = TelemetryFollower(servers, topic, newest.take, options.source)
    for thread in (*sources, follower):
        thread.start()

    def is_ready() -> bool:
        return all(source.has_read for source in sources)

    names = ObservedNames(
        options.group, options.topic, options.namespace, options.deployment, options.workload
    )
    exposition = Exposition(newest, aliases=names if options.has_metric_aliases else None)
    routes: Routes = {"/metrics": exposition, **probe_routes(is_ready)}
    HttpEndpoint(*address_and_port(environment), routes)
    while not stopping.wait(_CLOCK_LOOK_SECONDS):
        clock_watch.look()
    clock_watch.look()
    for source in sources:
        source.stop()
    telemetry.flush()


if __name__ == "__main__":
    run_program(main)
