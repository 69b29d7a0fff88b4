"""Fill in the API server's defaults for fields that clients or controllers rely on.

Each function changes the object in place and keeps the given values.
"""

from __future__ import annotations

from typing import Any

from lagbench.core.kubernetes import PROBE_KINDS
from lagbench.localkube.objects import JsonObject


def default_pod(pod: JsonObject) -> None:
    """Fill in a Pod."""
    default_pod_spec(pod.setdefault("spec", {}))


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in the spec of a pod or of a pod template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("securityContext", {})
    for container in [*_objects(spec, "containers"), *_objects(spec, "initContainers")]:
        _default_container(container)


def _default_container(container: JsonObject) -> None:
    image = str(container.get("image", ""))
    is_latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if is_latest and image else "IfNotPresent")
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container["resources"]
    if isinstance(resources, dict) and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in _objects(container, "ports"):
        port.setdefault("protocol", "TCP")
    for variable in _objects(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            reference.setdefault("apiVersion", "v1")
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        if isinstance(probe, dict):
            _default_probe(probe)


def _default_probe(probe: JsonObject) -> None:
    probe.setdefault("timeoutSeconds", 1)
    probe.setdefault("periodSeconds", 10)
    probe.setdefault("successThreshold", 1)
    probe.setdefault("failureThreshold", 3)
    if isinstance(probe.get("httpGet"), dict):
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def default_deployment(deployment: JsonObject) -> None:
    """Fill in a Deployment: one replica, rolling update by 25 %."""
    spec = deployment.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)
    strategy = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxSurge", "25%")
        rolling.setdefault("maxUnavailable", "25%")
    default_pod_spec(_template_spec(spec))


def default_job(job: JsonObject) -> None:
    """Fill in a Job: one completion, six retries, pods labelled and selected by the job's uid."""
    spec = job.setdefault("spec", {})
    spec.setdefault("parallelism", 1)
    spec.setdefault("completions", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    # No default for restartPolicy: Always is not allowed in a Job, so leaving it out is an error.
    template_spec = _template_spec(spec)
    given = template_spec.get("restartPolicy")
    default_pod_spec(template_spec)
    if given is None:
        del template_spec["restartPolicy"]
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name")
    if uid and name and not spec.get("manualSelector"):
        labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
        labels.setdefault("batch.kubernetes.io/controller-uid", uid)
        labels.setdefault("batch.kubernetes.io/job-name", name)
        labels.setdefault("job-name", name)
        spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}})


def default_service(service: JsonObject) -> None:
    """Fill in a Service, with its address on loopback."""
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    if spec["type"] != "ExternalName":
        spec.setdefault("clusterIP", "127.0.0.1")
    for port in _objects(spec, "ports"):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def default_secret(secret: JsonObject) -> None:
    """Fill in a Secret."""
    secret.setdefault("type", "Opaque")


def default_autoscaler(autoscaler: JsonObject) -> None:
    """Fill in a HorizontalPodAutoscaler.

    ``behavior`` is filled in per side and per field, but only if it is given. Without it the
    controller uses its legacy limits instead, so absent and empty differ.
    """
    spec = autoscaler.setdefault("spec", {})
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "target": {"type": "Utilization", "averageUtilization": 80},
                },
            }
        ]
    behavior = spec.get("behavior")
    if not isinstance(behavior, dict):
        return
    up = behavior["scaleUp"] = behavior.get("scaleUp") or {}
    up.setdefault("stabilizationWindowSeconds", 0)
    _default_rules(up, [_policy("Pods", 4), _policy("Percent", 100)])
    # scaleDown.stabilizationWindowSeconds stays unset: it is the controller's setting (300 s).
    down = behavior["scaleDown"] = behavior.get("scaleDown") or {}
    _default_rules(down, [_policy("Percent", 100)])


def _default_rules(rules: JsonObject, policies: list[JsonObject]) -> None:
    rules.setdefault("selectPolicy", "Max")
    if rules.get("policies") is None:
        rules["policies"] = policies


def _policy(kind: str, value: int) -> JsonObject:
    return {"type": kind, "value": value, "periodSeconds": 15}


def _template_spec(spec: JsonObject) -> JsonObject:
    template = spec.setdefault("template", {})
    template.setdefault("metadata", {})
    found: JsonObject = template.setdefault("spec", {})
    return found


def _objects(parent: JsonObject, field: str) -> list[dict[str, Any]]:
    """Return the list of objects in ``field``; validation reports other shapes."""
    found = parent.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
