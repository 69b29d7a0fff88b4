"""Fill in the API server's defaults for fields that clients or controllers rely on.

Each function changes the object in place and keeps the given values.
"""

from __future__ import annotations

from typing import Any

from lagbench.core.kubernetes.probes import PROBE_KINDS
from lagbench.localkube.objects import JsonObject


def fill(target: JsonObject, **usual: Any) -> JsonObject:
    """Set what ``target`` lacks."""
    for field, value in usual.items():
        target.setdefault(field, value)
    return target


def default_pod(pod: JsonObject) -> None:
    """Fill in a Pod."""
    default_pod_spec(pod.setdefault("spec", {}))


def default_pod_spec(spec: JsonObject) -> None:
    """Fill in the spec of a pod or of a pod template."""
    fill(
        spec,
        restartPolicy="Always",
        terminationGracePeriodSeconds=30,
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        securityContext={},
    )
    for container in [*_objects(spec, "containers"), *_objects(spec, "initContainers")]:
        _default_container(container)


def _default_container(container: JsonObject) -> None:
    image = str(container.get("image", ""))
    is_latest = ":" not in image.rsplit("/", 1)[-1] or image.endswith(":latest")
    fill(
        container,
        imagePullPolicy="Always" if is_latest and image else "IfNotPresent",
        resources={},
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
    )
    resources = container["resources"]
    if isinstance(resources, dict) and resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in _objects(container, "ports"):
        fill(port, protocol="TCP")
    for variable in _objects(container, "env"):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            fill(reference, apiVersion="v1")
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        if isinstance(probe, dict):
            fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
            if isinstance(probe.get("httpGet"), dict):
                fill(probe["httpGet"], path="/", scheme="HTTP")


def default_deployment(deployment: JsonObject) -> None:
    """Fill in a Deployment: one replica, rolling update by 25 %."""
    spec = deployment.setdefault("spec", {})
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = fill(spec.setdefault("strategy", {}), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), maxSurge="25%", maxUnavailable="25%")
    default_pod_spec(_template_spec(spec))


def default_stateful_set(stateful_set: JsonObject) -> None:
    """Fill in a StatefulSet: one replica, in order, rolling update of all pods."""
    spec = stateful_set.setdefault("spec", {})
    fill(spec, replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    fill(retention, whenDeleted="Retain", whenScaled="Retain")
    strategy = spec.setdefault("updateStrategy", {})
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        strategy.setdefault("rollingUpdate", {})
    if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
        fill(strategy["rollingUpdate"], partition=0)
    default_pod_spec(_template_spec(spec))


def default_job(job: JsonObject) -> None:
    """Fill in a Job: one completion, six retries, pods labelled and selected by the job's uid."""
    spec = job.setdefault("spec", {})
    fill(spec, parallelism=1, completions=1, backoffLimit=6, completionMode="NonIndexed")
    fill(spec, suspend=False)
    # No default for restartPolicy: Always is not allowed in a Job, so leaving it out is an error.
    template_spec = _template_spec(spec)
    given = template_spec.get("restartPolicy")
    default_pod_spec(template_spec)
    if given is None:
        del template_spec["restartPolicy"]
    uid, name = job["metadata"].get("uid"), job["metadata"].get("name")
    if uid and name and not spec.get("manualSelector"):
        own = {"batch.kubernetes.io/controller-uid": uid}
        labels = spec["template"]["metadata"].setdefault("labels", {})
        fill(labels, **own, **{"batch.kubernetes.io/job-name": name, "job-name": name})
        fill(spec, selector={"matchLabels": own})


def default_service(service: JsonObject) -> None:
    """Fill in a Service, with its address on loopback."""
    spec = fill(service.setdefault("spec", {}), type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        fill(spec, clusterIP="127.0.0.1")
    for port in _objects(spec, "ports"):
        fill(port, protocol="TCP", targetPort=port.get("port"))


def default_secret(secret: JsonObject) -> None:
    """Fill in a Secret."""
    fill(secret, type="Opaque")


def default_autoscaler(autoscaler: JsonObject) -> None:
    """Fill in a HorizontalPodAutoscaler.

    ``behavior`` is filled in per side and per field, but only if it is given. Without it the
    controller uses its legacy limits instead, so absent and empty differ.
    scaleDown.stabilizationWindowSeconds stays unset: it is the controller's setting (300 s).
    """
    spec = fill(autoscaler.setdefault("spec", {}), minReplicas=1)
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if not isinstance(behavior, dict):
        return
    percent = {"type": "Percent", "value": 100, "periodSeconds": 15}
    pods = {"type": "Pods", "value": 4, "periodSeconds": 15}
    for side, policies in (("scaleUp", [pods, percent]), ("scaleDown", [percent])):
        rules = behavior[side] = fill(behavior.get(side) or {}, selectPolicy="Max")
        if rules.get("policies") is None:
            rules["policies"] = [dict(policy) for policy in policies]
    fill(behavior["scaleUp"], stabilizationWindowSeconds=0)


def _template_spec(spec: JsonObject) -> JsonObject:
    template = fill(spec.setdefault("template", {}), metadata={})
    found: JsonObject = template.setdefault("spec", {})
    return found


def _objects(parent: JsonObject, field: str) -> list[dict[str, Any]]:
    """Return the list of objects in ``field``; validation reports other shapes."""
    found = parent.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
