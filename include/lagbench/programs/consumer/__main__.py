"""``python -m lagbench.programs.consumer``: run one consumer pod until SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.errors import ExitCode
from lagbench.programs.consumer.consumer_settings import ConsumerOptions, parse_options
from pod_program.program import run_program

if TYPE_CHECKING:
    from lagbench.programs.consumer.consumer_pod import ConsumerPod


def main() -> int:
    """Run the pod; returns the exit code."""
    return _run(parse_options(sys.argv[1:], os.environ))


def _run(options: ConsumerOptions) -> int:
    asked: list[str] = []
    pods: list[ConsumerPod] = []
    is_asked = StopSignal()

    def stop(signum: int, _frame: object) -> None:
        asked.append(signal.Signals(signum).name)
        is_asked.set()
        for pod in pods:
            pod.ask_to_stop(asked[0])

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    # Before the delay: what a process of its own has to import is part of the delay.
    from lagbench.programs.consumer.assembly import assemble, open_endpoint
    from pod_program.steady_clock import process_age_ns

    pod_counts = open_endpoint(os.environ)
    if is_asked.wait(options.start_delay_seconds - process_age_ns() / 1e9):
        return ExitCode.PASS  # it was never there: no member, no record
    with assemble(options, pod_counts) as pod:
        pods.append(pod)
        if asked:  # before there was a pod to tell
            pod.ask_to_stop(asked[0])
        pod.run()
        pod.leave()
    return ExitCode.PASS


if __name__ == "__main__":
    run_program(main)
