"""Compare ``lagbench.core.policy.admission`` with recorded answers of a real cluster.

``python -m tests.conformance.webhook FILE`` (.json or .json.gz) prints ``N of N agree`` (accepted
or not with which code, of each row and of the update it may hold) and how many reasons and warnings
are the same; exit code 1 on a difference, 2 when the file is something else.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lagbench.core.policy.admission.answer import Admission, FieldValidation, admit
from tests.conformance.comparison import Comparison, read_json, report_differences
from tests.conformance.webhook_cases import cluster_before

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
_MODES: Mapping[str, FieldValidation] = {"Strict": "Strict", "Ignore": "Ignore"}


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
        field_validation=_MODES.get(row.get("field_validation") or "", "Warn"),
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
        found = compare(read_json(path))
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
