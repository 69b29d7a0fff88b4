"""Run the autoscaler against the API server of a kubeconfig until SIGTERM.

Exit code 0 after SIGTERM or SIGINT, 2 for wrong flags, 3 when the cluster cannot be used or, with
``--instead-of-keda``, when a target has a second controller.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import Field

from lagbench.adapters.kube.followed_cluster import Cluster
from lagbench.adapters.process.stop_signal import StopSignal
from lagbench.core.hpa.hpa_sync import HpaSettings
from lagbench.core.keda.loop.keda_hpa import CONTROLLER
from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS, HPA_TOLERANCE
from lagbench.errors import ExitCode, NotReady, WrongInput
from lagbench.programs.autoscaler.instead_of_keda import (
    Handover,
    InsteadOfKeda,
    Operator,
    require_kinds,
)
from lagbench.programs.autoscaler.object_worker import Clock, WorkerContext
from lagbench.programs.autoscaler.trigger_sources import LiveSources
from pod_program.flags import CommandLine, Settings
from pod_program.http_endpoint import HttpEndpoint, Routes, address_and_port, probe_routes
from pod_program.json_log import log_as_json
from pod_program.program import run_program

log = logging.getLogger("lagbench.programs.autoscaler")

_LOOK_SECONDS = 1.0
_GAUGE = "# TYPE lagbench_autoscaler_ready gauge\nlagbench_autoscaler_ready"


class AutoscalerOptions(Settings):
    """lagbench's autoscaler; the defaults are those of Kubernetes."""

    kubeconfig: str | None = Field(
        None,
        description="path of a kubeconfig; default: KUBECONFIG, else the pod's service account",
    )
    namespace: str | None = Field(None, description="the only namespace to watch; default: all")
    instead_of_keda: bool = Field(
        False,
        description="on a cluster with KEDA's definitions: keep HPAs in memory, and drive only the "
        "ScaledObjects of --namespace that are annotated for this controller and paused for KEDA",
    )
    hpa_sync_seconds: float = Field(
        float(HPA_SYNC_SECONDS), ge=0.1, description="time between two syncs of an HPA"
    )
    downscale_stabilization_seconds: int = Field(
        300, ge=0, description="window of an HPA that sets none of its own"
    )
    hpa_tolerance: float = Field(
        HPA_TOLERANCE, ge=0, description="as a part of the target; 0: none"
    )


def parse_options(arguments: Sequence[str]) -> AutoscalerOptions:
    """Return the settings.

    :raises WrongInput: a flag is unknown, out of range or lacks its counterpart.
    """
    options = CommandLine(AutoscalerOptions, module="lagbench.programs.autoscaler").read(
        arguments, {}
    )
    if options.instead_of_keda and not options.namespace:
        allowed = "a namespace: KEDA keeps the rest of the cluster"
        raise WrongInput(where="autoscaler", field="--namespace", value=None, allowed=allowed)
    return options


def run(options: AutoscalerOptions, environment: Mapping[str, str], until: StopSignal) -> None:
    """Work until ``until`` is set.

    :raises NotReady: a target that is driven here has a second controller.
    """
    refused: list[NotReady] = []

    def refuse(error: NotReady) -> None:
        refused.append(error)
        until.set()

    clock = Clock()
    cluster = Cluster.connect(options.kubeconfig, options.namespace)
    handover = Handover(refuse, clock.monotonic_seconds)
    if options.instead_of_keda:
        require_kinds(cluster, options.namespace or "")
        cluster = cast("Cluster", InsteadOfKeda(cluster, handover))  # it has the same calls
    context = WorkerContext(
        cluster,
        LiveSources(cluster, clock.wall_ns),
        clock=clock,
        hpa_sync_seconds=options.hpa_sync_seconds,
        hpa_settings=HpaSettings(
            tolerance=options.hpa_tolerance,
            downscale_stabilization_seconds=options.downscale_stabilization_seconds,
        ),
        component=CONTROLLER if options.instead_of_keda else "",
    )
    operator = Operator(context)
    operator.start()
    if environment.get("PORT_METRICS"):  # a pod's probes; a plain process has none
        HttpEndpoint(*address_and_port(environment), routes_of(operator))
    log.info("autoscaler started")
    while not until.wait(_LOOK_SECONDS):
        handover.look_again()
    operator.stop()
    if refused:
        raise refused[0]
    log.info("autoscaler ends")


def routes_of(operator: Operator) -> Routes:
    """Return the probes, and one gauge: its scraper sees a bench without a run, too."""
    return {
        **probe_routes(lambda: operator.is_ready),
        "/metrics": lambda: (200, f"{_GAUGE} {int(operator.is_ready)}\n".encode()),
    }


def main() -> int:
    """Run as a program."""
    faulthandler.enable()  # a crash inside librdkafka or gRPC then says where
    log_as_json()
    logging.getLogger("kubernetes").setLevel(logging.WARNING)
    until = StopSignal.caught()
    run(parse_options(sys.argv[1:]), os.environ, until)
    return ExitCode.PASS


if __name__ == "__main__":
    run_program(main, log=log)
