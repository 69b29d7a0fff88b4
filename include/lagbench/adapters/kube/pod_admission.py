"""Ask an API server whether it would admit a user's workload and its pods; nothing is stored."""

from __future__ import annotations

from lagbench.adapters.kube.kube import Kube, Manifest
from lagbench.core.cluster.refused_pods import violated_level
from lagbench.errors import WrongInput

_TRIAL = "trial"


def require_admitted(kube: Kube, workload: Manifest, *, where: str) -> None:
    """Reject a workload that the API server rejects, or whose pods its namespace rejects.

    It is tried under a name of its own: an object that a crashed run has left does not matter.
    A quota is not seen here: only the creation of a pod shows it.

    :param where: the user's file, for the message.
    :raises WrongInput: it is rejected, with the API server's words.
    """
    name = f"{workload['metadata']['name']}-{_TRIAL}"
    trial = {**workload, "metadata": {**workload["metadata"], "name": name}}
    try:
        warnings = kube.try_apply(trial)
    except WrongInput as error:
        raise WrongInput(
            where=where, field=error.field, value=error.value, allowed=error.allowed
        ) from error
    violated = violated_level(warnings, kube.get("Namespace", kube.namespace) or {})
    if violated is not None:
        level, fields = violated
        raise WrongInput(
            where=where,
            field="spec.template",
            value=f'a pod that violates PodSecurity "{level}"',
            allowed=f"a pod that namespace {kube.namespace} admits. The API server says what to "
            f"change: {fields}. An example is in docs/own-consumer.md",
        )
