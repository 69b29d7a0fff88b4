"""The rules of Kubernetes 1.34 for the spec of an HPA in v2, beyond the types of its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from lagbench.core.kubernetes import parse_milli
from lagbench.core.policy.admission.field_error import FieldError
from lagbench.core.policy.admission.qualified_names import qualified_name_problems

_TYPES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
# The order in which the API server looks: it reads the first source that is there.
_SOURCES = ("object", "external", "pods", "resource", "containerResource")
# Of each source the two targets, of which one must be there; True: not both.
_TARGETS = {
    "object": ("averageValue", "value", False),
    "external": ("averageValue", "value", True),
    "pods": ("averageValue", "averageValue", False),
    "resource": ("averageUtilization", "averageValue", True),
    "containerResource": ("averageUtilization", "averageValue", True),
}
_TARGET_TYPES = ("Utilization", "Value", "AverageValue")
_CONTAINER_RESOURCES = ("cpu", "memory", "ephemeral-storage")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LONGEST_WINDOW_SECONDS, _LONGEST_PERIOD_SECONDS = 3600, 1800


def hpa_errors(spec: Mapping[str, Any]) -> Iterator[FieldError]:
    """Yield what the API server rejects; the types are known to be right."""
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    if least is not None and least < 1:
        yield _wrong("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        yield _wrong("spec.maxReplicas", most, "must be greater than 0")
    if least is not None and most < least:
        yield _wrong("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    # The one kind of the core group that has replicas.
    may_lack_group = target.get("kind") == "ReplicationController"
    yield from _reference(target, "spec.scaleTargetRef", may_lack_group=may_lack_group)
    for index, metric in enumerate(spec.get("metrics") or ()):
        yield from _metric(metric or {}, f"spec.metrics[{index}]")
    for side, rules in (spec.get("behavior") or {}).items():
        yield from _scaling(rules, f"spec.behavior.{side}")


def _wrong(field: str, value: Any, detail: str) -> FieldError:
    return FieldError("Invalid value", field, detail, value)


def _reference(
    given: Mapping[str, Any], field: str, *, may_lack_group: bool
) -> Iterator[FieldError]:
    for key in ("kind", "name"):
        yield from _path_segment(given.get(key) or "", f"{field}.{key}", "")
    version = given.get("apiVersion") or ""
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        yield _wrong(f"{field}.apiVersion", version, detail)
    elif "/" not in version.lstrip("/") and not may_lack_group:
        yield _wrong(f"{field}.apiVersion", version, "apiVersion must specify API group")


def _path_segment(name: str, field: str, missing: str) -> Iterator[FieldError]:
    """Yield why a name that becomes a part of a URL's path is none."""
    if not name:
        yield FieldError("Required value", field, missing)
    if name in {".", ".."}:
        yield _wrong(field, name, f"may not be '{name}'")
    for character in "/%":
        if character in name:
            yield _wrong(field, name, f"may not contain '{character}'")


def _metric(metric: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    kind = metric.get("type") or ""
    if kind not in _TYPES:
        listed = ", ".join(f'"{name}"' for name in _TYPES)
        yield FieldError("Unsupported value", f"{field}.type", f"supported values: {listed}", kind)
    present = [source for source in _SOURCES if metric.get(source) is not None]
    for source in present[:1]:
        yield from _source(source, metric[source], f"{field}.{source}")
    wanted = _TYPES.get(kind)
    if wanted is not None and wanted not in present:
        detail = "must populate information for the given metric source"
        yield FieldError("Required value", f"{field}.{wanted}", detail)
    for source in present if len(present) > 1 else ():
        if source != wanted:
            detail = "must populate the given metric source only"
            yield FieldError("Forbidden", f"{field}.{source}", detail)


def _source(source: str, given: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    if source == "object":
        described = given.get("describedObject") or {}
        yield from _reference(described, f"{field}.describedObject", may_lack_group=True)
    if source in {"resource", "containerResource"}:
        yield from _resource(source, given, field)
    else:
        name = (given.get("metric") or {}).get("name") or ""
        yield from _path_segment(name, f"{field}.metric.name", "must specify a metric name")
    target = given.get("target") or {}
    kind = target.get("type") or ""
    if not kind:
        detail = "must specify a metric target type"
        yield FieldError("Required value", f"{field}.target.type", detail)
    elif kind not in _TARGET_TYPES:
        detail = "must be either Utilization, Value, or AverageValue"
        yield _wrong(f"{field}.target.type", kind, detail)
    for key in ("value", "averageValue"):
        amount = target.get(key)
        if amount is not None and parse_milli(amount, where="HPA", field=key) <= 0:
            yield _wrong(f"{field}.target.{key}", amount, "must be positive")
    percent = target.get("averageUtilization")
    if percent is not None and percent < 1:
        yield _wrong(f"{field}.target.averageUtilization", percent, "must be greater than 0")
    one, other, is_exclusive = _TARGETS[source]
    if target.get(one) is None and target.get(other) is None:
        detail = f"must set {one}" if one == other else f"must set either {one} or {other}"
        yield FieldError("Required value", f"{field}.target.{one}", detail)
    if is_exclusive and target.get(one) is not None and target.get(other) is not None:
        detail = f"may not set both {one} and {other}"
        yield FieldError("Forbidden", f"{field}.target.{other}", detail)


def _resource(source: str, given: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    """Yield what is wrong with names; of a whole pod's resource any name is taken."""
    name = given.get("name") or ""
    if not name:
        yield FieldError("Required value", f"{field}.name", "must specify a resource name")
    if source == "resource":
        return
    for problem in qualified_name_problems(name) if name else ():
        yield _wrong(f"{field}.name", name, problem)
    is_standard = name in _CONTAINER_RESOURCES or name.startswith("hugepages-")
    if name and "/" not in name and not is_standard:
        yield _wrong(f"{field}.name", name, "must be a standard resource for containers")
    container = given.get("container") or ""
    if not container:
        yield FieldError("Required value", f"{field}.container", "must specify a container")
    elif not _DNS_LABEL.fullmatch(container):
        yield _wrong(f"{field}.container", container, "must be a label of RFC 1123")


def _scaling(rules: Mapping[str, Any], field: str) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= _LONGEST_WINDOW_SECONDS:
        detail = f"must be from 0 to {_LONGEST_WINDOW_SECONDS}"
        yield _wrong(f"{field}.stabilizationWindowSeconds", window, detail)
    yield from _choice(rules.get("selectPolicy"), f"{field}.selectPolicy", "Disabled", "Max", "Min")
    if rules.get("policies") == []:
        yield FieldError("Required value", f"{field}.policies", "must specify at least one Policy")
    for index, policy in enumerate(rules.get("policies") or ()):
        place, period = f"{field}.policies[{index}]", (policy or {}).get("periodSeconds", 0)
        yield from _choice((policy or {}).get("type", ""), f"{place}.type", "Percent", "Pods")
        if (policy or {}).get("value", 0) <= 0:
            value = (policy or {}).get("value", 0)
            yield _wrong(f"{place}.value", value, "must be greater than zero")
        if not 0 < period <= _LONGEST_PERIOD_SECONDS:
            detail = f"must be from 1 to {_LONGEST_PERIOD_SECONDS}"
            yield _wrong(f"{place}.periodSeconds", period, detail)


def _choice(given: str | None, field: str, *allowed: str) -> Iterator[FieldError]:
    if given is not None and given not in allowed:
        listed = ", ".join(f'"{name}"' for name in allowed)
        yield FieldError("Unsupported value", field, f"supported values: {listed}", given)
