"""Join the verdicts of a run's two consumer groups to the run's verdict.

The run fails if one group fails. It is undetermined if one group is and none fails. Otherwise it
passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from lagbench.core.verdict.slo import SECOND_GROUP_PREFIX
from lagbench.core.verdict.verdict import Verdict, VerdictStatus

TITLE_PREFIX = "Second group: "


def with_second_group(first: Verdict, second: Verdict) -> Verdict:
    """Return the run's verdict; the second group's SLOs, reasons and notes name it."""
    states = (first.status, second.status)
    status: VerdictStatus = "pass"
    if "fail" in states:
        status = "fail"
    elif "undetermined" in states:
        status = "undetermined"
    # What decided comes first; a group that passes gives no reason for a run that does not.
    deciding = [
        reason
        for group, reasons in ((first, first.reasons), (second, _named(second.reasons)))
        for reason in reasons
        if group.status != "pass" or status == "pass"
    ]
    slos = tuple(
        slo.model_copy(
            update={
                "name": f"{SECOND_GROUP_PREFIX}{slo.name}",
                "title": f"{TITLE_PREFIX}{slo.title}",
            }
        )
        for slo in second.slos
    )
    # Both groups get the load of the run: what is wrong with it is one reason.
    also_invalid = [reason for reason in second.invalid if reason not in first.invalid]
    invalid = (*first.invalid, *_named(also_invalid))
    known = {*invalid, *_named(second.invalid)}
    return first.model_copy(
        update={
            "status": status,
            "reasons": (*invalid, *(reason for reason in deciding if reason not in known)),
            "notes": (*first.notes, *_named(second.notes)),
            "invalid": invalid,
            "open_ends": (*first.open_ends, *_named(second.open_ends)),
            "slos": (*first.slos, *slos),
        }
    )


def _named(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"second group: {text}" for text in texts)
