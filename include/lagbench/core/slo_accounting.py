"""SLOs on messages: lost, duplicated, reordered, zombies; by identity.

What was found is proven, whatever else went wrong: also an acknowledged message that the log does
not hold. Finding nothing proves something only when everything was consumed and the log still has
everything: not drained, without accounting, or with messages expired, it is undetermined.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures import Accounting, BadMessageGroup, Measures
from lagbench.core.scenario import Slos
from lagbench.core.slo_result import Slo, SloResult, moment

NAMED_GROUPS = 3
NAMED_PARTITIONS = 6

_CAUSES = {
    "rebalance": "next to a rebalance",
    "sigterm": "next to a SIGTERM",
    "killed": "after a pod was killed",
    "commit": "next to a commit",
    "none": "without a known cause",
}


def accounting_results(measures: Measures, slos: Slos) -> list[SloResult]:
    """Return the SLOs on messages, in the order of the table."""
    found = measures.accounting
    strange = strange_work(found)
    return [
        _count(
            measures,
            Slo("lost", "No message lost", slos.lost, "messages"),
            found.lost_in_all,
            "lost",
            [*gaps_of_the_log(found), *strange],
        ),
        _count(
            measures,
            Slo("duplicated", "Zero double-processing", slos.duplicated, "processings"),
            found.duplicated,
            "duplicated",
            strange,
        ),
        _count(
            measures,
            Slo("reordered", "Order kept", slos.reordered, "messages"),
            found.reordered,
            "reordered",
            strange,
        ),
        _count(
            measures,
            Slo("zombies", "One owner at a time", slos.zombies, "messages"),
            found.zombie,
            "zombie",
            strange,
        ),
    ]


def _count(
    measures: Measures, slo: Slo, value: int | None, message_class: str, doubts: Sequence[str]
) -> SloResult:
    if value is None:
        return slo.result("undetermined", None, "no accounting was made")
    facts = measures.accounting
    told = describe_groups(
        measures, [group for group in facts.bad_messages if group.message_class == message_class]
    )
    if message_class == "lost" and facts.lost_in_broker:
        gone = f"{facts.lost_in_broker} acknowledged, but the log does not hold them"
        told = f"{told}; {gone}" if told else gone
    if slo.limit is not None and value > slo.limit:
        return slo.result("fail", value, told or f"{value} found")
    unsure = [*unsettled_end(measures)[:1], *doubts]
    if unsure:
        reason = f"{value} found so far, but {'; '.join(unsure)}"
        return slo.result("undetermined", value, reason)
    whole = f"{facts.processed_distinct} of {facts.in_log} messages in the log processed"
    return slo.result("pass", value, told or whole)


def gaps_of_the_log(found: Accounting) -> list[str]:
    """Return why the log does not say what became of every acknowledged message."""
    reasons = []
    if found.produced_acked is None:
        reasons.append("the producer never said what was acknowledged")
    excused = found.not_in_log_excused
    if found.produced_unknown and (excused is None or excused > (found.produced_failed or 0)):
        reasons.append(f"{found.produced_unknown} deliveries may have been acknowledged or not")
    reasons += _unless_zero(found.expired, "messages had expired before they were accounted for")
    return reasons + _unless_zero(found.log_holes, "offsets within the log hold no message")


def strange_work(found: Accounting) -> list[str]:
    """Return why the ledger cannot be held against the log message by message."""
    return _unless_zero(found.unknown_message, "processings are of no message in the log")


def _unless_zero(count: int | None, text: str) -> list[str]:
    if count is None:
        return [f"it is not known how many {text}"]
    return [f"{count} {text}"] if count else []


def unsettled_end(measures: Measures) -> list[str]:
    """Return why the end of the run proves nothing; empty when it was drained and stable."""
    end, waiting = measures.end_state, measures.accounting.not_yet_consumed
    reasons = []
    if end.is_drained is None:
        reasons.append("there is no fence that says whether everything was consumed")
    elif not end.is_drained:
        places = _partitions(end.undrained_partitions)
        reasons.append(f"{end.undrained_records} messages of {places} were not consumed")
    elif waiting:
        reasons.append(f"{waiting} messages were not yet consumed")
    if end.log_records == 0 or measures.accounting.in_log == 0:
        reasons.append("the log holds no message: there was nothing to lose or to drain")
    if end.is_group_stable is None:
        reasons.append("whether the group was settled at the end was not seen")
    elif not end.is_group_stable:
        reasons.append(f"the group was {end.group_state} at the end")
    return reasons


def describe_groups(measures: Measures, groups: Sequence[BadMessageGroup]) -> str:
    """Return who did it, where and next to what, largest groups first."""
    texts = []
    for group in groups[:NAMED_GROUPS]:
        who = group.pod or "an unknown pod"
        other = f" (first {group.other_pod})" if group.other_pod else ""
        cause = _CAUSES.get(group.cause, group.cause)
        of_pod = f" of {group.cause_pod}" if group.cause_pod else ""
        when = "" if group.first_at is None else f", first {moment(measures, group.first_at)}"
        where = _partitions(group.partitions)
        texts.append(f"{group.count} by {who}{other} on {where} {cause}{of_pod}{when}")
    left = sum(group.count for group in groups[NAMED_GROUPS:])
    return "; ".join(texts) + (f"; {left} more" if left else "")


def _partitions(partitions: Sequence[int]) -> str:
    if not partitions:
        return "no known partition"
    named = ", ".join(str(partition) for partition in partitions[:NAMED_PARTITIONS])
    more = len(partitions) - NAMED_PARTITIONS
    word = "partition" if len(partitions) == 1 else "partitions"
    return f"{word} {named}" + (f" and {more} more" if more > 0 else "")
