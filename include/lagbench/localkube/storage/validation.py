"""Find violations of the API's rules in a defaulted object: pairs of field and message.

Only rules that the bench relies on: a policy or manifest that a cluster would reject is also
rejected here. Parts of a pod that localkube cannot honour are rejected instead of ignored.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from lagbench.core.kubernetes import PROBE_KINDS, selector_string
from lagbench.localkube.objects import JsonObject
from lagbench.localkube.storage.selectors import label_matcher

Faults: TypeAlias = list[tuple[str, str]]

_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_VARIABLE_SOURCES = frozenset({"fieldRef", "configMapKeyRef", "secretKeyRef"})
_RESTART_POLICIES = ("Always", "OnFailure", "Never")


def name_faults(name: object) -> Faults:
    """Check ``metadata.name``: a lower-case DNS name of at most 253 characters."""
    if not name:
        return [("metadata.name", "Required value: name or generateName is required")]
    if not isinstance(name, str) or len(name) > 253 or not _NAME.match(name):
        return [
            (
                "metadata.name",
                (
                    f"Invalid value: {name!r}: a lowercase RFC 1123 subdomain must consist of "
                    "lower case alphanumeric characters, '-' or '.', and must start and end with "
                    "an alphanumeric character"
                ),
            )
        ]
    return []


def pod_faults(pod: JsonObject) -> Faults:
    """Check a Pod."""
    return pod_spec_faults(pod.get("spec"), "spec")


def pod_spec_faults(spec: object, path: str) -> Faults:
    """Check the spec of a pod or pod template found at ``path``."""
    if not isinstance(spec, dict):
        return [(path, "Required value")]
    faults: Faults = []
    if spec.get("restartPolicy") not in _RESTART_POLICIES:
        faults.append(
            (
                f"{path}.restartPolicy",
                (
                    f"Unsupported value: {spec.get('restartPolicy')!r}: "
                    'supported values: "Always", "OnFailure", "Never"'
                ),
            )
        )
    faults += integer_faults(spec, "terminationGracePeriodSeconds", path, lowest=0)
    if not isinstance(spec.get("containers"), list) or not spec["containers"]:
        return [*faults, (f"{path}.containers", "Required value")]
    names = set()
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            place = f"{path}.{kind}[{index}]"
            if not isinstance(container, dict) or not container.get("name"):
                faults.append((f"{place}.name", "Required value"))
                continue
            if container["name"] in names:
                faults.append((f"{place}.name", f"Duplicate value: {container['name']!r}"))
            names.add(container["name"])
            faults += _container_faults(container, place)
    return faults


def _container_faults(container: JsonObject, path: str) -> Faults:
    faults: Faults = []
    for field in ("command", "args"):
        value = container.get(field)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
        ):
            faults.append((f"{path}.{field}", "Invalid value: must be a list of strings"))
    faults += _port_faults(container, path) + _variable_faults(container, path)
    for kind in PROBE_KINDS:
        probe = container.get(kind)
        if probe is not None and not (
            isinstance(probe, dict) and {"httpGet", "tcpSocket"} & set(probe)
        ):
            faults.append(
                (f"{path}.{kind}", ("Unsupported value: localkube supports httpGet and tcpSocket"))
            )
    return faults


def _port_faults(container: JsonObject, path: str) -> Faults:
    faults: Faults = []
    for index, port in enumerate(container.get("ports") or ()):
        place = f"{path}.ports[{index}]"
        if "containerPort" not in port:
            faults.append((f"{place}.containerPort", "Required value"))
        faults += integer_faults(port, "containerPort", place, lowest=1, highest=65535)
    return faults


def _variable_faults(container: JsonObject, path: str) -> Faults:
    faults: Faults = []
    for index, variable in enumerate(container.get("env") or ()):
        place = f"{path}.env[{index}]"
        if not isinstance(variable, dict) or not variable.get("name"):
            faults.append((f"{place}.name", "Required value"))
        elif not isinstance(variable.get("value", ""), str):
            faults.append((f"{place}.value", f"Invalid value: {variable['value']!r}: not a string"))
        elif set(variable.get("valueFrom") or ()) - _VARIABLE_SOURCES:
            faults.append(
                (
                    f"{place}.valueFrom",
                    (
                        "Unsupported value: localkube supports "
                        "fieldRef, configMapKeyRef and secretKeyRef"
                    ),
                )
            )
    return faults


def deployment_faults(deployment: JsonObject) -> Faults:
    """Check a Deployment."""
    spec = deployment["spec"]
    faults = integer_faults(spec, "replicas", "spec", lowest=0)
    faults += pod_spec_faults(spec["template"].get("spec"), "spec.template.spec")
    if spec["template"].get("spec", {}).get("restartPolicy") != "Always":
        faults.append(("spec.template.spec.restartPolicy", "Unsupported value: only Always"))
    selector = spec.get("selector")
    if not isinstance(selector, dict) or not (
        selector.get("matchLabels") or selector.get("matchExpressions")
    ):
        return [*faults, ("spec.selector", "Required value")]
    labels = spec["template"]["metadata"].get("labels") or {}
    if not label_matcher(selector_string(selector))(labels):
        faults.append(
            (
                "spec.template.metadata.labels",
                (f"Invalid value: {labels!r}: `selector` does not match template `labels`"),
            )
        )
    return faults


def job_faults(job: JsonObject) -> Faults:
    """Check a Job."""
    spec = job["spec"]
    faults: Faults = []
    for field in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"):
        faults += integer_faults(spec, field, "spec", lowest=0)
    faults += integer_faults(spec, "activeDeadlineSeconds", "spec", lowest=1)
    template = spec["template"].get("spec") or {}
    if template.get("restartPolicy") not in {"OnFailure", "Never"}:
        return [
            *faults,
            ("spec.template.spec.restartPolicy", "Required value: valid values: OnFailure, Never"),
        ]
    if spec.get("completionMode") != "NonIndexed":
        faults.append(("spec.completionMode", "Unsupported value: localkube supports NonIndexed"))
    return faults + pod_spec_faults(template, "spec.template.spec")


def service_faults(service: JsonObject) -> Faults:
    """Check a Service."""
    spec = service["spec"]
    if spec["type"] == "ExternalName" or spec.get("clusterIP") == "None":
        return []
    if not spec.get("ports"):
        return [("spec.ports", "Required value")]
    faults: Faults = []
    for index, port in enumerate(spec["ports"]):
        faults += integer_faults(port, "port", f"spec.ports[{index}]", lowest=1, highest=65535)
        if len(spec["ports"]) > 1 and not port.get("name"):
            faults.append((f"spec.ports[{index}].name", "Required value"))
    return faults


def autoscaler_faults(autoscaler: JsonObject) -> Faults:
    """Check a HorizontalPodAutoscaler."""
    spec = autoscaler["spec"]
    faults = integer_faults(spec, "minReplicas", "spec", lowest=1)
    if "maxReplicas" not in spec:
        faults.append(("spec.maxReplicas", "Required value"))
    faults += integer_faults(spec, "maxReplicas", "spec", lowest=1)
    if not faults and spec["maxReplicas"] < spec["minReplicas"]:
        faults.append(
            (
                "spec.maxReplicas",
                (
                    f"Invalid value: {spec['maxReplicas']}: must be greater than or "
                    "equal to `minReplicas`"
                ),
            )
        )
    target = spec.get("scaleTargetRef") or {}
    faults += [
        (f"spec.scaleTargetRef.{field}", "Required value")
        for field in ("kind", "name")
        if not target.get(field)
    ]
    for side, rules in (spec.get("behavior") or {}).items():
        faults += _scaling_rule_faults(rules, f"spec.behavior.{side}")
    return faults


def _scaling_rule_faults(rules: JsonObject, path: str) -> Faults:
    faults = integer_faults(rules, "stabilizationWindowSeconds", path, lowest=0, highest=3600)
    if rules.get("selectPolicy") not in {"Max", "Min", "Disabled"}:
        faults.append((f"{path}.selectPolicy", f"Unsupported value: {rules.get('selectPolicy')!r}"))
    if not rules.get("policies"):
        return [*faults, (f"{path}.policies", "Required value: must specify at least one Policy")]
    for index, policy in enumerate(rules["policies"]):
        place = f"{path}.policies[{index}]"
        if policy.get("type") not in {"Pods", "Percent"}:
            faults.append((f"{place}.type", f"Unsupported value: {policy.get('type')!r}"))
        faults += [
            (f"{place}.{field}", "Required value")
            for field in ("value", "periodSeconds")
            if field not in policy
        ]
        faults += integer_faults(policy, "value", place, lowest=1)
        faults += integer_faults(policy, "periodSeconds", place, lowest=1, highest=1800)
    return faults


def integer_faults(
    parent: JsonObject, field: str, path: str, *, lowest: int, highest: int = 2**31 - 1
) -> Faults:
    """Check that ``field`` of ``parent``, which is found at ``path``, is absent or in range."""
    value = parent.get(field)
    if value is None:
        return []
    if isinstance(value, bool) or not isinstance(value, int):
        return [(f"{path}.{field}", f"Invalid value: {value!r}: must be an integer")]
    if not lowest <= value <= highest:
        return [
            (f"{path}.{field}", f"Invalid value: {value}: must be between {lowest} and {highest}")
        ]
    return []
