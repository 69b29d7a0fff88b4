"""Take a Deployment's pods away for a time, and bring them back.

The Deployment itself notes the replicas that it had. So a later run, or the end of this one, brings
back what a killed player left at zero.
"""

from __future__ import annotations

from typing import Any

from lagbench.adapters.kube.kube import Kube
from lagbench.errors import NotReady

HAD_REPLICAS = "lagbench.io/replicas-before-action"
_GONE_SECONDS, _READY_SECONDS = 60.0, 60.0


def set_aside(kube: Kube, deployment: str) -> None:
    """Scale ``deployment`` to zero and note its replicas; return when it has no pod.

    :raises NotReady: there is none, or its pods stay.
    """
    found = kube.get("Deployment", deployment)
    if found is None:
        raise NotReady(f"there is no Deployment {deployment} in namespace {kube.namespace}")
    had = _noted(found) or int(found["spec"].get("replicas", 1))
    note = {"annotations": {HAD_REPLICAS: str(had)}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": 0}})
    labels = found["spec"]["selector"]["matchLabels"]
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    kube.wait_gone("Pod", label_selector=selector, timeout_seconds=_GONE_SECONDS)


def bring_back(kube: Kube, deployment: str) -> bool:
    """Give ``deployment`` its noted replicas back and wait until they are Ready; False: none noted.

    :raises NotReady: its pods do not become Ready.
    """
    found = kube.get("Deployment", deployment)
    had = None if found is None else _noted(found)
    if had is None:
        return False
    note = {"annotations": {HAD_REPLICAS: None}}
    kube.merge("Deployment", deployment, {"metadata": note, "spec": {"replicas": had}})
    kube.wait_until(
        lambda kube: _ready(kube.get("Deployment", deployment) or {}) >= had,
        timeout_seconds=_READY_SECONDS,
        what=f"{had} Ready pods of Deployment/{deployment}",
    )
    return True


def _noted(deployment: dict[str, Any]) -> int | None:
    text = (deployment["metadata"].get("annotations") or {}).get(HAD_REPLICAS)
    return None if text is None else int(text)


def _ready(deployment: dict[str, Any]) -> int:
    return int((deployment.get("status") or {}).get("readyReplicas") or 0)
