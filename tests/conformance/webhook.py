"""Compare ``lagbench.core.policy.admission`` with recorded answers of a real cluster.

``python -m tests.conformance.webhook FILE`` (.json or .json.gz) prints ``N of N agree`` (accepted
or not with which code, of each row and of the update it may hold) and how many reasons and warnings
are the same; exit code 1 on a difference, 2 when the file is something else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lagbench.core.keda.object.scaled_object_spec import KIND
from lagbench.core.policy.admission.api_server import Admission, FieldValidation, admit
from lagbench.core.policy.admission.webhook import ClusterView, target_type
from tests.conformance.comparison import Comparison, read_oracle, report_differences

# What a recorded answer says, and the code of that rule.
_CODES = {
    "404 page not found": "api-version",
    "unknown field": "unknown-field",
    "less than or equal to maxReplicaCount": "replica-counts",
    " is invalid: ": "schema",
    "json: cannot unmarshal number": "schema",
    "IdleReplicaCount=": "replica-counts",
    "request defined": "request-missing",
    "only cpu/memory triggers": "resource-only-to-zero",
    "useCachedMetrics": "never-cached",
    "already managed by": "other-autoscaler",
    "ownership transfer": "other-autoscaler",
    "for the fallback to be enabled": "fallback-without-metric",
    "ScalingModifiers": "formula",
    "no matches for kind": "target-kind",
    "characters long": "name-too-long",
}

FIELD_VALIDATIONS: Mapping[str, FieldValidation] = {"Strict": "Strict", "Ignore": "Ignore"}


@dataclass
class WebhookComparison:
    """Verdicts, and beside them the reasons, which only rows that are rejected have."""

    answers: Comparison = field(default_factory=Comparison)
    reasons: Comparison = field(default_factory=Comparison)
    warnings: Comparison = field(default_factory=Comparison)
    leaning: list[str] = field(default_factory=list)


def compare(rows: list[dict[str, Any]]) -> WebhookComparison:
    """Return the comparison over every row, in the order in which they were sent."""
    found = WebhookComparison()
    accepted: list[Mapping[str, Any]] = []
    for row in rows:
        manifest, name = row["manifest"], row["name"]
        wanted, got = {"create": row["accepted"]}, {}
        answer = _answer(found, row, manifest, row, accepted)
        got["create"] = answer.is_accepted
        _compare_reasons(found, name, row, answer)
        if row["accepted"] and not row.get("dry_run"):
            accepted.append(manifest)
        if "update" in row:
            update = row["update"]
            changed = {**manifest, "spec": update["spec"]}
            wanted["update"] = update["accepted"]
            updated = _answer(found, row, changed, update, accepted)
            got["update"] = updated.is_accepted
            _compare_reasons(found, f"{name} (update)", update, updated)
        found.answers.expect(name, wanted, got)
    return found


def _answer(
    found: WebhookComparison,
    row: Mapping[str, Any],
    manifest: Mapping[str, Any],
    recorded: Mapping[str, Any],
    accepted: list[Mapping[str, Any]],
) -> Admission:
    message, note = recorded.get("message") or "", row.get("note") or ""
    cluster, leans = cluster_before(manifest, message, accepted, note)
    if leans:
        found.leaning.append(row["name"])
    return admit(
        manifest,
        cluster,
        field_validation=FIELD_VALIDATIONS.get(row.get("field_validation") or "", "Warn"),
        is_dry_run=bool(row.get("dry_run")),
    )


def _compare_reasons(
    found: WebhookComparison, name: str, recorded: Mapping[str, Any], answer: Admission
) -> None:
    message = recorded.get("message")
    if message is not None:
        # The webhook answers with the first problem it meets, in random order.
        recorded_code = next(code for part, code in _CODES.items() if part in message)
        codes = {refusal.code for refusal in answer.refusals}
        got = recorded_code if recorded_code in codes else "; ".join(codes)
        found.reasons.expect(name, {"reason": recorded_code}, {"reason": got})
    # A warning travels in a header, in which quotes are escaped.
    warnings = [text.replace('\\"', '"') for text in recorded.get("warnings") or []]
    if warnings or answer.warnings:
        expected, computed = {"warnings": warnings}, {"warnings": list(answer.warnings)}
        found.warnings.expect(name, expected, computed)


def main(arguments: list[str]) -> int:
    """Compare the file named on the command line; 0 all agree, 1 a difference, 2 wrong input."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tests.conformance.webhook FILE\n")
        return 2
    path = Path(arguments[0])
    try:
        found = compare(read_oracle(path)["rows"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        sys.stderr.write(f"{path}: not readable as recorded answers: {error!r}\n")
        return 2
    code = report_differences(found.answers)
    sys.stdout.write(
        f"  reasons equal: {_equal(found.reasons)}; warnings equal: "
        f"{_equal(found.warnings)}\n"
        f"  {len(found.leaning)} of the rows take a fact of the cluster from their own answer"
        f"{': ' if found.leaning else ''}{', '.join(found.leaning)}\n"
    )
    for difference in found.reasons.differences + found.warnings.differences:
        sys.stdout.write(f"  {difference}\n")
    return code


def _equal(comparison: Comparison) -> str:
    agreeing = comparison.compared - len(comparison.differences)
    return f"{agreeing} of {comparison.compared}"


_NAME = "'([^']*)'"

_BY_HPA = re.compile(rf"workload {_NAME} of type .* is already managed by the hpa {_NAME}")

_EXISTING_HPA = re.compile(rf"the existing hpa {_NAME} for workload {_NAME} ")

_BY_SCALED_OBJECT = re.compile(rf"workload {_NAME} of type .* managed by the ScaledObject {_NAME}")

_HPA_BY_SCALED_OBJECT = re.compile(
    rf"the HPA {_NAME} is already managed by the ScaledObject {_NAME}"
)

_NO_REQUEST = re.compile(r"the container (\S+) doesn't have the (\S+) request defined")

_NOT_FOUND = re.compile(r'"([^"]*)" not found$')

_DEPENDS_ON_TIMING = "informer cache"


def cluster_before(
    manifest: Mapping[str, Any], message: str, accepted: Sequence[Mapping[str, Any]], note: str = ""
) -> tuple[ClusterView, bool]:
    """Return the cluster that a request met, and whether a fact of its answer was needed."""
    view = ClusterView(knows_all_kinds=True)
    if _DEPENDS_ON_TIMING not in note:  # such a request overtook the webhook's view of the others
        view = replace(view, scaled_objects=tuple(accepted))
    target = (manifest.get("spec") or {}).get("scaleTargetRef") or {}
    stated = _stated(view, message, target)
    return stated, stated is not view


def _stated(view: ClusterView, message: str, target: Mapping[str, Any]) -> ClusterView:
    api_version, kind = target_type(target)
    reference = {"apiVersion": api_version, "kind": kind, "name": target.get("name")}
    if found := _BY_HPA.search(message):
        return replace(view, hpas=(_hpa(found[2], reference),))
    if found := _EXISTING_HPA.search(message):
        return replace(view, hpas=(_hpa(found[1], reference),))
    if found := _NOT_FOUND.search(message):
        return replace(view, missing=frozenset({(kind, found[1])}))
    if found := _NO_REQUEST.search(message):
        pod = {"containers": [{"name": found[1]}]}
        workload = {"kind": kind, "metadata": {"name": target.get("name")}}
        return replace(view, workloads=({**workload, "spec": {"template": {"spec": pod}}},))
    return _with_owner(view, message, reference)


def _with_owner(view: ClusterView, message: str, reference: Mapping[str, Any]) -> ClusterView:
    if found := _BY_SCALED_OBJECT.search(message):
        return _with_scaled_object(view, found[2], {"scaleTargetRef": reference})
    if found := _HPA_BY_SCALED_OBJECT.search(message):
        advanced = {"horizontalPodAutoscalerConfig": {"name": found[1]}}
        other = {"scaleTargetRef": {"name": f"of-{found[2]}"}, "advanced": advanced}
        return _with_scaled_object(view, found[2], other)
    return view


def _with_scaled_object(view: ClusterView, name: str, spec: Mapping[str, Any]) -> ClusterView:
    if any(item["metadata"].get("name") == name for item in view.scaled_objects):
        return view
    other = {"kind": KIND, "metadata": {"name": name}, "spec": spec}
    return replace(view, scaled_objects=(*view.scaled_objects, other))


def _hpa(name: str, reference: Mapping[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"scaleTargetRef": reference}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
