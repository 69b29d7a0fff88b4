"""Which ScaledObjects the hand-rolled controller drives in KEDA's place, by their annotations.

One that it drives carries two: ``lagbench.io/scaled-by`` names the controller, and KEDA's own
``autoscaling.keda.sh/paused`` keeps KEDA off: it then has no HPA and no scale loop for the object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from lagbench.core.keda.loop.scale_loop import READY
from lagbench.core.keda.object.spec import PAUSED, parse_scaling_annotations

SCALED_BY = "lagbench.io/scaled-by"
CONTROLLER = "lagbench-autoscaler"
_PAUSED_CONDITION = "Paused"


def is_handed_over(manifest: Mapping[str, Any]) -> bool:
    """Return whether a ScaledObject names this controller."""
    annotations = manifest["metadata"].get("annotations") or {}
    return annotations.get(SCALED_BY) == CONTROLLER


def is_driven(manifest: Mapping[str, Any]) -> bool:
    """Return whether the controller has taken a stored object up: Ready, and not as KEDA calls it.

    KEDA calls an object that it has paused Ready too, with a message of its own.
    """
    conditions = (manifest.get("status") or {}).get("conditions") or ()
    return any(
        (item.get("type"), item.get("status")) == (READY.type, READY.status)
        and item.get("message") == READY.message
        for item in conditions
    )


def unpaused_problem(manifest: Mapping[str, Any]) -> str:
    """Return why a handed-over object has two controllers; empty if KEDA is paused for it."""
    if parse_scaling_annotations(manifest).is_paused:
        return ""
    metadata = manifest["metadata"]
    return (
        f"ScaledObject {metadata['namespace']}/{metadata['name']} is marked {SCALED_BY}: "
        f"{CONTROLLER}, but KEDA is not paused for it, and two controllers on one target undo "
        f'each other\'s changes. Annotate it with {PAUSED}: "true", or remove that annotation to '
        "let KEDA drive it"
    )


def standing_hpa_problem(manifest: Mapping[str, Any], hpa: str) -> str:
    """Return what to say of an HPA of the cluster that is on the target of such an object."""
    metadata = manifest["metadata"]
    return (
        f"ScaledObject {metadata['namespace']}/{metadata['name']} is handed over to "
        f"{CONTROLLER}, but the HPA {hpa} is on its target, and Kubernetes acts on it. KEDA "
        "deletes its HPA within a second of the pause; if KEDA is stopped, delete the HPA by hand"
    )


def hpa_on_target(manifest: Mapping[str, Any], hpas: Iterable[Mapping[str, Any]]) -> str:
    """Return the name of an HPA on the target of a ScaledObject; empty without one."""
    wanted = (manifest["metadata"]["namespace"], *_target_of(manifest))
    names = [
        str(hpa["metadata"]["name"])
        for hpa in hpas
        if (hpa["metadata"]["namespace"], *_target_of(hpa)) == wanted
    ]
    return min(names, default="")


def as_driven(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ScaledObject without the pause that is meant for KEDA.

    A count to pause at (``paused-replicas``) stays: both controllers then hold that count.
    """
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    annotations = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != PAUSED}
    conditions = without_paused(status.get("conditions") or ())
    return {
        **manifest,
        "metadata": {**metadata, "annotations": annotations},
        "status": {**status, "conditions": conditions},
    }


def without_paused(conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the conditions except Paused, which stays KEDA's."""
    return [item for item in conditions if item.get("type") != _PAUSED_CONDITION]


def with_paused_of(
    conditions: Sequence[Mapping[str, Any]], manifest: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Return the conditions with Paused as the stored object has it."""
    stored = (manifest.get("status") or {}).get("conditions") or ()
    kept = [item for item in stored if item.get("type") == _PAUSED_CONDITION]
    return [*without_paused(conditions), *kept]


def _target_of(manifest: Mapping[str, Any]) -> tuple[str, str]:
    given = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    return given.get("kind") or "Deployment", str(given.get("name"))
