"""The logs of a pod, which may have more containers than its program's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.errors import NotReady

_LAST_CHARACTERS = 1000


def logs_of_pod(kube: Kube, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return what the pod's containers have written so far, by POD or, if several, POD.CONTAINER.

    A container that has not started is left out, and so is a pod that no longer exists.
    """
    name = str(pod["metadata"]["name"])
    containers = [str(container["name"]) for container in pod["spec"]["containers"]]
    found: dict[str, str] = {}
    for container in containers:
        with suppress(NotReady):
            text = kube.pod_logs(name, container)
            found[name if len(containers) == 1 else f"{name}.{container}"] = text
    return found


def last_words(kube: Kube, pod: Mapping[str, Any]) -> str:
    """Return the end of each log of the pod, for a message; of several with their names."""
    ends = {name: text[-_LAST_CHARACTERS:] for name, text in logs_of_pod(kube, pod).items()}
    if len(ends) == 1:
        return next(iter(ends.values()))
    return "; ".join(f"{name}: {end}" for name, end in ends.items())
