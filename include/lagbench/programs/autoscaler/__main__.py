"""Run the autoscaler against the API server of a kubeconfig until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when no kubeconfig can be used.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import os
import signal
import sys
import threading

from lagbench.core.hpa_state import HpaSettings
from lagbench.errors import LagbenchError, WrongInput
from lagbench.programs.autoscaler.bench import make_bench
from lagbench.programs.autoscaler.clocks import HpaClock
from lagbench.programs.autoscaler.kube_cluster import KubeCluster
from lagbench.programs.autoscaler.operator import Operator
from lagbench.programs.json_log import log_as_json

log = logging.getLogger("lagbench.programs.autoscaler")


def parse_flags(arguments: list[str]) -> argparse.Namespace:
    """Return the flags; the defaults are those of Kubernetes."""
    parser = argparse.ArgumentParser(prog="python -m lagbench.programs.autoscaler")
    parser.add_argument("--kubeconfig", help="default: KUBECONFIG, else the pod's service account")
    parser.add_argument("--hpa-sync-seconds", type=float, default=15.0)
    parser.add_argument("--downscale-stabilization-seconds", type=int, default=300)
    parser.add_argument(
        "--hpa-phase-seconds",
        type=float,
        help="wait before an HPA's first sync; default: one sync period, as in Kubernetes",
    )
    parser.add_argument(
        "--seed", type=int, help="draw each HPA's phase at random from this seed instead"
    )
    flags = parser.parse_args(arguments)
    for name in ("hpa_sync_seconds", "downscale_stabilization_seconds", "hpa_phase_seconds"):
        value = getattr(flags, name)
        low = 0.1 if name == "hpa_sync_seconds" else 0
        if value is not None and value < low:
            raise WrongInput(
                where="flags",
                field=f"--{name.replace('_', '-')}",
                value=value,
                allowed=f"at least {low}",
            )
    return flags


def run(flags: argparse.Namespace, until: threading.Event) -> None:
    """Work until ``until`` is set."""
    bench = make_bench(
        KubeCluster.connect(flags.kubeconfig),
        hpa_clock=HpaClock(flags.hpa_sync_seconds, flags.hpa_phase_seconds, flags.seed),
        hpa_settings=HpaSettings(
            downscale_stabilization_seconds=flags.downscale_stabilization_seconds
        ),
    )
    operator = Operator(bench)
    operator.start()
    log.info("autoscaler started")
    until.wait()
    operator.stop()
    bench.telemetry.close()
    log.info("autoscaler ends")


def main() -> int:
    """Run as a program."""
    faulthandler.enable()  # a crash inside librdkafka or gRPC then says where
    log_as_json()
    logging.getLogger("kubernetes").setLevel(logging.WARNING)
    until = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: until.set())
    try:
        run(parse_flags(sys.argv[1:]), until)
    except LagbenchError as error:
        log.error("%s", error)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    code = main()
    # Not sys.exit: a thread in a broker's timeout must not hold the process back.
    logging.shutdown()
    os._exit(code)
