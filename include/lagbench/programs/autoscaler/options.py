"""Define the settings of the autoscaler and read them."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from lagbench.core.kubernetes import HPA_SYNC_SECONDS, HPA_TOLERANCE
from lagbench.errors import WrongInput
from lagbench.programs.flags import CommandLine, Settings


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
    hpa_phase_seconds: float | None = Field(
        None,
        ge=0,
        description="wait before an HPA's first sync; default: one sync period, as in Kubernetes",
    )
    seed: int | None = Field(
        None, description="draws each HPA's phase at random instead of --hpa-phase-seconds"
    )


def parse_options(arguments: Sequence[str]) -> AutoscalerOptions:
    """Return the settings.

    :raises WrongInput: a flag is unknown, out of range or lacks its counterpart.
    """
    options = CommandLine(AutoscalerOptions, module="lagbench.programs.autoscaler").read(
        arguments, {}
    )
    if options.instead_of_keda and not options.namespace:
        raise WrongInput(
            where="autoscaler",
            field="--namespace",
            value=None,
            allowed="a namespace: KEDA keeps the rest of the cluster",
        )
    return options
