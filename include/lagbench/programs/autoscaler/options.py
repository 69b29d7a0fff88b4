"""The flags of the autoscaler."""

from __future__ import annotations

import argparse

from pydantic import BaseModel, ConfigDict

from lagbench.errors import WrongInput

_LEAST = {
    "hpa_sync_seconds": 0.1,
    "downscale_stabilization_seconds": 0,
    "hpa_phase_seconds": 0,
    "hpa_tolerance": 0,
}


class AutoscalerOptions(BaseModel):
    """What the flags say; the defaults are those of Kubernetes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kubeconfig: str | None = None
    namespace: str | None = None
    instead_of_keda: bool = False
    hpa_sync_seconds: float = 15.0
    downscale_stabilization_seconds: int = 300
    hpa_tolerance: float = 0.1
    hpa_phase_seconds: float | None = None
    seed: int | None = None


def parse_options(arguments: list[str]) -> AutoscalerOptions:
    """Return the flags."""
    parser = argparse.ArgumentParser(
        prog="python -m lagbench.programs.autoscaler", argument_default=argparse.SUPPRESS
    )
    parser.add_argument("--kubeconfig", help="default: KUBECONFIG, else the pod's service account")
    parser.add_argument("--namespace", help="follow objects there only; default: in all")
    parser.add_argument(
        "--instead-of-keda",
        action="store_true",
        help="on a cluster with KEDA's definitions: keep HPAs in memory, and drive only the "
        "ScaledObjects of --namespace that are annotated for this controller and paused for KEDA",
    )
    parser.add_argument("--hpa-sync-seconds", type=float)
    parser.add_argument("--downscale-stabilization-seconds", type=int)
    parser.add_argument("--hpa-tolerance", type=float, help="part of the target; 0: none")
    parser.add_argument(
        "--hpa-phase-seconds",
        type=float,
        help="wait before an HPA's first sync; default: one sync period, as in Kubernetes",
    )
    parser.add_argument(
        "--seed", type=int, help="draw each HPA's phase at random from this seed instead"
    )
    options = AutoscalerOptions(**vars(parser.parse_args(arguments)))
    for name, low in _LEAST.items():
        value = getattr(options, name)
        if value is not None and value < low:
            raise _wrong(name, value, f"at least {low}")
    if options.instead_of_keda and not options.namespace:
        raise _wrong("namespace", "", "a namespace: the rest of the cluster stays KEDA's")
    return options


def _wrong(name: str, value: object, allowed: str) -> WrongInput:
    field = f"--{name.replace('_', '-')}"
    return WrongInput(where="flags", field=field, value=value, allowed=allowed)
