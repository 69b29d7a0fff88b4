"""The API server's defaults for fields that clients or controllers rely on, and its rules.

A default is set in place and keeps what was given; a broken rule is a pair of field and message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

from localkube.kube_objects import PROBE_KINDS, JsonObject, label_matcher, selector_string

Faults: TypeAlias = list[tuple[str, str]]

_POD_DEFAULTS = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "schedulerName": "default-scheduler",
}
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_PERCENT = {"type": "Percent", "value": 100, "periodSeconds": 15}
_PODS = {"type": "Pods", "value": 4, "periodSeconds": 15}


def fill(target: JsonObject, **usual: Any) -> JsonObject:
    """Set what ``target`` lacks."""
    for field, value in usual.items():
        target.setdefault(field, value)
    return target


def default_pod(pod: JsonObject) -> None:
    """Fill in a Pod."""
    _default_pod_spec(pod.setdefault("spec", {}))


def _default_pod_spec(spec: JsonObject) -> None:
    """Fill in the spec of a pod or of a pod template."""
    fill(spec, **_POD_DEFAULTS, securityContext={})
    for container in [*_objects(spec, "containers"), *_objects(spec, "initContainers")]:
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
        for probe in filter(None, map(container.get, PROBE_KINDS)):
            fill(probe, **_PROBE_DEFAULTS)
            if isinstance(probe.get("httpGet"), dict):
                fill(probe["httpGet"], path="/", scheme="HTTP")


def default_deployment(deployment: JsonObject) -> None:
    """Fill in a Deployment: one replica, rolling update by 25 %."""
    spec = deployment.setdefault("spec", {})
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = fill(spec.setdefault("strategy", {}), type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        fill(strategy.setdefault("rollingUpdate", {}), maxSurge="25%", maxUnavailable="25%")
    _default_pod_spec(_template_spec(spec))


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
    _default_pod_spec(_template_spec(spec))


def default_job(job: JsonObject) -> None:
    """Fill in a Job: one completion, six retries, pods labelled and selected by the job's uid."""
    spec = job.setdefault("spec", {})
    fill(spec, parallelism=1, completions=1, backoffLimit=6, completionMode="NonIndexed")
    fill(spec, suspend=False)
    # No default for restartPolicy: Always is not allowed in a Job, so leaving it out is an error.
    template_spec = _template_spec(spec)
    is_given = template_spec.get("restartPolicy") is not None
    _default_pod_spec(template_spec)
    if not is_given:
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
    for side, policies in (("scaleUp", [_PODS, _PERCENT]), ("scaleDown", [_PERCENT])):
        rules = behavior[side] = fill(behavior.get(side) or {}, selectPolicy="Max")
        if rules.get("policies") is None:
            rules["policies"] = [dict(policy) for policy in policies]
    fill(behavior["scaleUp"], stabilizationWindowSeconds=0)


def _template_spec(spec: JsonObject) -> JsonObject:
    template = fill(spec.setdefault("template", {}), metadata={})
    found: JsonObject = template.setdefault("spec", {})
    return found


def _objects(parent: JsonObject, field: str) -> list[JsonObject]:
    """Return the list of objects in ``field``; validation reports other shapes."""
    found = parent.get(field)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VARIABLE_SOURCES = ("configMapKeyRef", "fieldRef", "secretKeyRef")
_STATEFUL_SET_MAY_CHANGE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)
_REQUIRED = "Required value"


def _required(parent: JsonObject, path: str, *fields: str) -> Faults:
    """Check that ``parent``, which is found at ``path``, has the fields."""
    return [(f"{path}.{field}", _REQUIRED) for field in fields if parent.get(field) in (None, "")]


def _one_of(parent: JsonObject, path: str, field: str, *allowed: str) -> Faults:
    """Check that ``field`` is one of the allowed values."""
    value = parent.get(field)
    text = f"Unsupported value: {value!r}: supported values: {', '.join(allowed)}"
    return [] if value in allowed else [(f"{path}.{field}", text)]


def _integers(
    parent: JsonObject, path: str, lowest: int, *fields: str, highest: int = 2**31 - 1
) -> Faults:
    """Check that each field is absent or a whole number in range."""
    faults: Faults = []
    for field in fields:
        value = parent.get(field)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            faults.append((f"{path}.{field}", f"Invalid value: {value!r}: must be an integer"))
        elif not lowest <= value <= highest:
            text = f"Invalid value: {value}: must be between {lowest} and {highest}"
            faults.append((f"{path}.{field}", text))
    return faults


def name_faults(name: object) -> Faults:
    """Check ``metadata.name``: a lower-case DNS name of at most 253 characters."""
    if not name:
        return [("metadata.name", f"{_REQUIRED}: name or generateName is required")]
    text = f"Invalid value: {name!r}: must be a lowercase RFC 1123 subdomain, such as my-name.1"
    is_valid = isinstance(name, str) and _NAME.fullmatch(name)
    return [] if is_valid else [("metadata.name", text)]


def _label_faults(field: str, value: str) -> Faults:
    """Check a name that becomes a host name."""
    text = f"Invalid value: {value!r}: must be a lowercase RFC 1123 label of at most 63 characters"
    return [] if _LABEL.fullmatch(value) else [(field, text)]


def pod_faults(pod: JsonObject) -> Faults:
    """Check a Pod."""
    return _pod_spec_faults(pod.get("spec"), "spec")


def _pod_spec_faults(spec: Any, path: str) -> Faults:
    """Check the spec of a pod or pod template found at ``path``."""
    if not isinstance(spec, dict):
        return [(path, _REQUIRED)]
    faults = _one_of(spec, path, "restartPolicy", "Always", "OnFailure", "Never")
    faults += _integers(spec, path, 0, "terminationGracePeriodSeconds")
    if not isinstance(spec.get("containers"), list) or not spec["containers"]:
        return [*faults, (f"{path}.containers", _REQUIRED)]
    names = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{path}.{kind}[{index}]"
            if not isinstance(container, dict) or not container.get("name"):
                faults.append((f"{place}.name", _REQUIRED))
                continue
            if container["name"] in names:
                faults.append((f"{place}.name", f"Duplicate value: {container['name']!r}"))
            names.add(container["name"])
            faults += _container_faults(container, place)
    return faults


def _container_faults(container: JsonObject, path: str) -> Iterator[tuple[str, str]]:
    for field in ("command", "args"):
        value = container.get(field) or []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            yield f"{path}.{field}", "Invalid value: must be a list of strings"
    for index, port in enumerate(container.get("ports") or ()):
        place = f"{path}.ports[{index}]"
        yield from _required(port, place, "containerPort")
        yield from _integers(port, place, 1, "containerPort", highest=65_535)
    for index, variable in enumerate(container.get("env") or ()):
        place = f"{path}.env[{index}]"
        if not isinstance(variable, dict) or not variable.get("name"):
            yield f"{place}.name", _REQUIRED
        elif not isinstance(variable.get("value", ""), str):
            yield f"{place}.value", f"Invalid value: {variable['value']!r}: not a string"
        elif not set(variable.get("valueFrom") or ()) <= set(_VARIABLE_SOURCES):
            text = f"Unsupported value: localkube supports {', '.join(_VARIABLE_SOURCES)}"
            yield f"{place}.valueFrom", text
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        if probe is not None and not (
            isinstance(probe, dict) and {"httpGet", "tcpSocket"} & {*probe}
        ):
            yield f"{path}.{kind}", "Unsupported value: localkube supports httpGet and tcpSocket"


def _workload_faults(spec: JsonObject) -> Faults:
    """Check what Deployments and StatefulSets share: pods that always run, and their selector."""
    template, selector = spec["template"], spec.get("selector")
    faults = _integers(spec, "spec", 0, "replicas", "minReadySeconds", "revisionHistoryLimit")
    faults += _pod_spec_faults(template.get("spec"), "spec.template.spec")
    if template["spec"].get("restartPolicy") != "Always":
        faults.append(("spec.template.spec.restartPolicy", "Unsupported value: only Always"))
    terms = selector_string(selector) if isinstance(selector, dict) else ""
    labels = template["metadata"].get("labels") or {}
    if not terms:
        faults.append(("spec.selector", _REQUIRED))
    elif not label_matcher(terms)(labels):
        text = f"Invalid value: {labels!r}: `selector` does not match template `labels`"
        faults.append(("spec.template.metadata.labels", text))
    return faults


def deployment_faults(deployment: JsonObject) -> Faults:
    """Check a Deployment."""
    return _workload_faults(deployment["spec"])


def stateful_set_faults(stateful_set: JsonObject) -> Faults:
    """Check a StatefulSet as Kubernetes 1.34 does; localkube has no volumes."""
    spec, strategy = stateful_set["spec"], stateful_set["spec"]["updateStrategy"]
    faults = _label_faults("metadata.name", str(stateful_set["metadata"].get("name")))
    faults += _one_of(spec, "spec", "podManagementPolicy", "OrderedReady", "Parallel")
    wrong_type = _one_of(strategy, "", "type", "RollingUpdate", "OnDelete")
    faults += [("spec.updateStrategy", text) for _, text in wrong_type]
    rolling, place = strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    if strategy["type"] == "OnDelete" and rolling is not None:
        faults.append((place, f"Invalid value: {rolling!r}: only allowed for 'RollingUpdate'"))
    faults += _integers(rolling or {}, place, 0, "partition")
    faults += _integers(spec.get("ordinals") or {}, "spec.ordinals", 0, "start")
    if spec.get("serviceName"):
        faults += _label_faults("spec.serviceName", str(spec["serviceName"]))
    if spec.get("volumeClaimTemplates"):
        text = "Unsupported value: localkube has no volumes; name a real cluster as the target"
        faults.append(("spec.volumeClaimTemplates", text))
    if spec["template"]["spec"].get("activeDeadlineSeconds") is not None:
        text = "Forbidden: activeDeadlineSeconds in StatefulSet is not Supported"
        faults.append(("spec.template.spec.activeDeadlineSeconds", text))
    return faults + _workload_faults(spec)


def stateful_set_change_faults(before: JsonObject, after: JsonObject) -> Faults:
    """Reject a change of a field that cannot change after creation."""
    old, new = before["spec"], after["spec"]
    fixed = {*old, *new} - {*_STATEFUL_SET_MAY_CHANGE}
    if all((old.get(field) or None) == (new.get(field) or None) for field in fixed):
        return []
    allowed = ", ".join(_STATEFUL_SET_MAY_CHANGE)
    return [("spec", f"Forbidden: updates to fields of a StatefulSet other than {allowed}")]


def job_faults(job: JsonObject) -> Faults:
    """Check a Job."""
    spec, place = job["spec"], "spec.template.spec"
    counts = ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished")
    faults = _integers(spec, "spec", 0, *counts)
    faults += _integers(spec, "spec", 1, "activeDeadlineSeconds")
    faults += _one_of(spec, "spec", "completionMode", "NonIndexed")
    template = spec["template"].get("spec") or {}
    wrong_policy = _one_of(template, place, "restartPolicy", "OnFailure", "Never")
    return faults + (wrong_policy or _pod_spec_faults(template, place))


def service_faults(service: JsonObject) -> Faults:
    """Check a Service."""
    spec = service["spec"]
    if spec["type"] == "ExternalName" or spec.get("clusterIP") == "None":
        return []
    ports = spec.get("ports") or ()
    faults: Faults = [] if ports else [("spec.ports", _REQUIRED)]
    for index, port in enumerate(ports):
        place = f"spec.ports[{index}]"
        faults += _integers(port, place, 1, "port", highest=65_535)
        faults += _required(port, place, "name") if len(ports) > 1 else []
    return faults


def autoscaler_faults(autoscaler: JsonObject) -> Faults:
    """Check a HorizontalPodAutoscaler."""
    spec = autoscaler["spec"]
    faults = _required(spec, "spec", "maxReplicas")
    faults += _integers(spec, "spec", 1, "minReplicas", "maxReplicas")
    if not faults and spec["maxReplicas"] < spec["minReplicas"]:
        text = f"Invalid value: {spec['maxReplicas']}: must be at least `minReplicas`"
        faults.append(("spec.maxReplicas", text))
    faults += _required(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef", "kind", "name")
    for side, rules in (spec.get("behavior") or {}).items():
        path = f"spec.behavior.{side}"
        faults += _integers(rules, path, 0, "stabilizationWindowSeconds", highest=3600)
        faults += _one_of(rules, path, "selectPolicy", "Max", "Min", "Disabled")
        if not rules.get("policies"):
            faults.append((f"{path}.policies", _REQUIRED))
        for index, policy in enumerate(rules.get("policies") or ()):
            place = f"{path}.policies[{index}]"
            faults += _one_of(policy, place, "type", "Pods", "Percent")
            faults += _required(policy, place, "value", "periodSeconds")
            faults += _integers(policy, place, 1, "value")
            faults += _integers(policy, place, 1, "periodSeconds", highest=1800)
    return faults
