"""An API server in memory that behaves: workloads get pods, ScaledObjects get an HPA."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lagbench.core.keda.loop.keda_hpa import is_handed_over
from lagbench.core.keda.loop.zero_and_minimum import READY
from lagbench.core.keda.object.scaled_object_rules import hpa_name
from lagbench.core.scenario.run_names import NAMESPACE
from lagbench.errors import NotReady, StillWaiting

Manifest = dict[str, Any]


class FakeKube:
    """The verbs of ``lagbench.adapters.kube.kube.Kube`` on a dict; reactions are instant.

    ``calls`` lists what changed something, in order. ``is_down`` makes every call fail.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.namespace = NAMESPACE
        self.objects: dict[tuple[str, str], Manifest] = {}
        self.logs: dict[str, str] = {}
        self.calls: list[str] = []
        self.is_down = False
        self.is_autoscaler_up = True
        self.default_cpu_limit: str | None = None  # as of a LimitRange, for containers without one
        self.leaves_hpa = False  # the autoscaler is about to read a changed policy

    def close(self) -> None:
        """Nothing is open."""

    def apply(self, manifest: Manifest) -> Manifest:
        """Replace what the one field manager owned: here, everything but the status."""
        self._up()
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        self.calls.append(f"apply {kind}/{name}")
        return self._store(manifest)

    def create(self, manifest: Manifest) -> bool:
        """Reject a second object of the same name."""
        self._up()
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if (kind, name) in self.objects:
            return False
        self.calls.append(f"create {kind}/{name}")
        self._store(manifest)
        return True

    def create_missing(self, manifest: Manifest) -> bool:
        """Ask first, as the real one does."""
        found = self.get(manifest["kind"], manifest["metadata"]["name"])
        return found is None and self.create(manifest)

    def get(self, kind: str, name: str) -> Manifest | None:
        """Return a copy."""
        self._up()
        found = self.objects.get((kind, name))
        return None if found is None else copy.deepcopy(found)

    def list(self, kind: str, *, label_selector: str = "") -> list[Manifest]:
        """Understand ``key`` and ``key=value``, several separated by commas."""
        self._up()
        terms = [term.partition("=") for term in label_selector.split(",") if term]
        return [
            copy.deepcopy(item)
            for (its_kind, _), item in self.objects.items()
            if its_kind == kind and all(_has_label(item, key, value) for key, _, value in terms)
        ]

    def delete(self, kind: str, name: str) -> bool:
        """Delete the object and what it owns."""
        self._up()
        if self.objects.pop((kind, name), None) is None:
            return False
        self.calls.append(f"delete {kind}/{name}")
        owned = [key for key, item in self.objects.items() if item.get("owner") == (kind, name)]
        for key in owned:
            del self.objects[key]
        return True

    def elsewhere(self, namespace: str) -> FakeKube:
        """Return itself: names are unique in here."""
        return self

    def merge(self, kind: str, name: str, changes: Manifest) -> Manifest:
        """Merge as RFC 7396 says."""
        self._up()
        self.calls.append(f"merge {kind}/{name}")
        return self._store(_merged(self.objects[kind, name], changes))

    def pod_logs(self, pod: str, container: str | None = None) -> str:
        """Return the log, or fail as a server does for a pod that is gone."""
        self._up()
        containers = self.objects.get(("Pod", pod), {}).get("spec", {}).get("containers", [])
        if len(containers) > 1:
            if container is None:
                raise NotReady(f"a container name must be specified for pod {pod}")
            pod = f"{pod}.{container}"
        if pod not in self.logs:
            raise NotReady(f"no log of {pod}")
        return self.logs[pod]

    def wait_until(
        self,
        condition: Callable[[Any], Any],
        *,
        timeout_seconds: float,
        what: str,
        last_seen: Callable[[], str] = str,
    ) -> Any:
        """Look once: everything here reacts at once, so what is not so now never will be."""
        found = condition(self)
        if found is None or found is False:
            raise StillWaiting(f"waited {timeout_seconds:.0f} s for {what}: {last_seen()}")
        return found

    def wait_gone(self, kind: str, *, label_selector: str, timeout_seconds: float) -> None:
        """Look once."""
        self.wait_until(
            lambda kube: not kube.list(kind, label_selector=label_selector),
            timeout_seconds=timeout_seconds,
            what=f"{kind} to be deleted",
        )

    def finish_job(self, name: str, condition: str = "Complete") -> None:
        """Let a Job end."""
        status = {"conditions": [{"type": condition, "status": "True"}]}
        if condition == "Failed":
            status["failed"] = 1  # type: ignore[assignment]
        self.objects["Job", name]["status"] = status

    def _up(self) -> None:
        if self.is_down:
            raise NotReady("the API server does not answer")

    def _store(self, manifest: Manifest) -> Manifest:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        before = self.objects.get((kind, name))
        stored = copy.deepcopy(manifest)
        generation = (before or {}).get("metadata", {}).get("generation", 0) + 1
        stored["metadata"]["generation"] = generation
        self.objects[kind, name] = stored
        if kind in {"Deployment", "StatefulSet"}:
            self._run_pods(stored, stored["spec"].get("replicas", 1))
        if kind == "Job":
            self._pod(f"{name}-x1", stored)
        if kind == "ScaledObject" and self.is_autoscaler_up:
            ready = {"type": "Ready", "status": "True", "message": READY.message}
            stored["status"] = {"conditions": [ready]}
            if not (self.leaves_hpa or is_handed_over(stored)):
                self._hpa(hpa_name(stored), stored)
        if kind == "HorizontalPodAutoscaler" and self.is_autoscaler_up:
            stored["status"] = {"conditions": [{"type": "AbleToScale", "status": "True"}]}
        return copy.deepcopy(stored)

    def _run_pods(self, deployment: Manifest, replicas: int) -> None:
        for number in range(replicas):
            self._pod(f"{deployment['metadata']['name']}-{number}", deployment)
        deployment["status"] = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": replicas,
            "readyReplicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": replicas,
        }

    def _pod(self, name: str, owner: Manifest) -> None:
        labels = owner["spec"]["template"]["metadata"]["labels"]
        self.objects["Pod", name] = {
            "kind": "Pod",
            "metadata": {"name": name, "labels": dict(labels)},
            "spec": copy.deepcopy(owner["spec"]["template"].get("spec") or {}),
            "owner": (owner["kind"], owner["metadata"]["name"]),
        }
        self.objects["Pod", name]["spec"] = self._admitted(owner["spec"]["template"])
        self.logs[name] = f"log of {name}\n"

    def _admitted(self, template: Manifest) -> Manifest:
        """Return the pod's spec, with the limit of containers that have none."""
        spec: Manifest = copy.deepcopy(template.get("spec") or {})
        if self.default_cpu_limit is not None:
            defaults = {"resources": {"limits": {"cpu": self.default_cpu_limit}}}
            spec["containers"] = [_merged(defaults, one) for one in spec["containers"]]
        return spec

    def _hpa(self, name: str, scaled_object: Manifest) -> None:
        spec = scaled_object["spec"]
        self.objects["HorizontalPodAutoscaler", name] = {
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "annotations": scaled_object["metadata"].get("annotations")},
            "spec": {
                "minReplicas": max(spec.get("minReplicaCount") or 0, 1),
                "maxReplicas": spec.get("maxReplicaCount", 100),
            },
            "owner": ("ScaledObject", scaled_object["metadata"]["name"]),
        }


def _has_label(item: Manifest, key: str, value: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    return key in labels and (not value or labels[key] == value)


def _merged(target: Manifest, changes: Manifest) -> Manifest:
    merged = copy.deepcopy(target)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = _merged(merged.get(key) or {}, value)
        else:
            merged[key] = value
    return merged
