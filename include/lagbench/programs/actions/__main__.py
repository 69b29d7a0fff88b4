"""``python -m lagbench.programs.actions``: play a run's actions; ends after the last of them.

Exit code 0 after the last action, whatever its outcome: each is in its record. SIGTERM undoes the
actions that last.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.errors import ExitCode
from lagbench.programs.actions.player import PlayerOptions, parse_options
from pod_program.program import run_program

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

KUBE_TIMEOUT_SECONDS = 5.0
CLUSTER_PATIENCE_SECONDS = 10.0
"""For an API server of a cluster that does not answer: a new leader of etcd takes a few seconds.
Not on localkube: a signal that is sent again kills the container that the first one restarted."""
UNDO_SECONDS, FLUSH_SECONDS = 12.0, 10.0
"""After SIGTERM; together below the pod's grace period."""
_LOOK_SECONDS = 0.25


def main() -> int:
    """Run the player; returns the exit code."""
    stopping = StopSignal.caught()
    _run(parse_options(sys.argv[1:], os.environ), os.environ, stopping)
    return ExitCode.PASS


def api_client(environment: Mapping[str, str]) -> ApiClient:
    """Return a client of the API server; calls to a cluster's are repeated for some seconds."""
    from lagbench.adapters.kube.kube_client import log_in, patient_retries

    is_in_cluster = "KUBECONFIG" not in environment
    return log_in(
        is_in_cluster=is_in_cluster,
        retries=patient_retries(CLUSTER_PATIENCE_SECONDS) if is_in_cluster else 0,
        advice="Set KUBECONFIG, or run in a pod with a service account",
    )


def _run(options: PlayerOptions, environment: Mapping[str, str], stopping: StopSignal) -> None:
    from lagbench.adapters.kafka.telemetry_topic import TelemetryFollower, TelemetryLog
    from lagbench.adapters.kube.kube import Kube
    from lagbench.core.telemetry.records_of_programs import Record
    from lagbench.programs.actions.performers import performer
    from lagbench.programs.actions.player import Player, Stage, StreamState, send_to_both
    from lagbench.programs.clock_watch import ClockWatch
    from pod_program.http_endpoint import HttpEndpoint, address_and_port, probe_routes
    from pod_program.steady_clock import SteadyClock

    client = api_client(environment)
    kube = Kube(client, namespace=options.namespace, request_timeout_seconds=KUBE_TIMEOUT_SECONDS)
    stage = Stage(kube, options)
    performers = [performer(number, one, stage) for number, one in enumerate(options.actions)]
    telemetry = TelemetryLog(options.bootstrap_servers, options.telemetry_topic)
    logs = [telemetry]
    send: Callable[[Record], None] = telemetry.send
    if options.second_telemetry_topic is not None:
        logs.append(TelemetryLog(options.bootstrap_servers, options.second_telemetry_topic))
        send = send_to_both(telemetry.send, logs[1].send, options.actions)
    clock = SteadyClock()
    clock_watch = ClockWatch(options.source, send)
    state = StreamState(
        clock.now_ns,
        drained_records=options.drained_records,
        drained_after_seconds=options.drained_after_seconds,
    )
    follower = TelemetryFollower(
        options.bootstrap_servers,
        options.telemetry_topic,
        state.take,
        options.source,
        is_prompt=True,
    )
    stage.ready_pods()  # the client asks the API for its kinds now, not when an action is due
    follower.start()
    player = Player(state, send, clock.now_ns, options.source)
    player.start(performers)
    HttpEndpoint(*address_and_port(environment), probe_routes(lambda: True))
    while not stopping.wait(_LOOK_SECONDS) and not player.is_done():
        clock_watch.look()
    player.stop(UNDO_SECONDS)
    for log in logs:
        log.flush(FLUSH_SECONDS / len(logs))


if __name__ == "__main__":
    run_program(main)
