"""Reject a cluster that throttles the pods of a run."""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster import imposed_cpu_limits, sets_cpu_limit
from lagbench.core.kubernetes import selector_string
from lagbench.errors import NotReady, WrongInput


def require_unthrottled(kube: Kube, workload: dict[str, Any]) -> None:
    """Reject CPU limits that pods of a started workload have and its manifest has not.

    :raises WrongInput: it names container, limit and, if the account may list them, LimitRange.
    """
    labels = workload["spec"]["template"]["metadata"]["labels"]
    for pod in kube.list("Pod", label_selector=selector_string({"matchLabels": labels})):
        for container, limit in imposed_cpu_limits(workload, pod).items():
            raise WrongInput(
                where=f"Pod/{pod['metadata']['name']}, container {container}",
                field="resources.limits.cpu",
                value=limit,
                allowed=f"no limit, as in k8s/base: the run would measure throttled pods. "
                f"{_who_sets_it(kube)} in namespace {kube.namespace} sets it. Remove its default "
                "for CPU, or name another namespace in the target's settings",
            )


def _who_sets_it(kube: Kube) -> str:
    try:
        names = [r["metadata"]["name"] for r in kube.list("LimitRange") if sets_cpu_limit(r)]
    except NotReady:  # the account "runner" may not list them
        names = []
    return f"LimitRange/{', '.join(names)}" if names else "A LimitRange or a webhook"
