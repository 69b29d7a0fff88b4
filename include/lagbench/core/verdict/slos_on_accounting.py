"""Judge SLOs on messages by identity: lost, duplicated, reordered, zombies.

A bad message that was found is proven, whatever else went wrong. This includes an acknowledged
message that the log does not hold. Finding none proves something only if everything was consumed
and the log still has everything: if the run is not drained, has no accounting, or has expired
messages, the SLO is undetermined. It is also undetermined if the limit lies between the certain
count and the count that two clocks leave in doubt.

Double-processing is judged by the ledger. Work that a killed pod had done and not yet written there
is in no record; the reason states its upper bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from lagbench.core.measures import NAMED, Measures, moment
from lagbench.core.measures.accounting import Accounting, BadMessageGroup
from lagbench.core.scenario import Slos
from lagbench.core.verdict.slo import Slo, SloResult, slo_of
from lagbench.shared_with_spark import message_classes

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
    clocks = unbounded_clocks(found)
    return [
        _count(
            measures,
            slo_of("lost", slos.lost),
            message_classes.LOST,
            [*gaps_of_the_log(found), *strange],
        ),
        *_failed(measures, slo_of("failed", slos.failed), strange),
        _count(
            measures,
            slo_of("duplicated", slos.duplicated),
            message_classes.DUPLICATED,
            strange,
        ),
        _count(
            measures,
            slo_of("reordered", slos.reordered),
            message_classes.REORDERED,
            [*clocks, *strange],
            in_doubt=found.reordered_in_doubt or 0,
        ),
        _count(
            measures,
            slo_of("zombies", slos.zombies),
            message_classes.ZOMBIE,
            [*unknown_ownership(measures), *clocks, *strange],
            in_doubt=found.zombie_in_doubt or 0,
        ),
    ]


def _failed(measures: Measures, slo: Slo, doubts: Sequence[str]) -> list[SloResult]:
    """Judge messages that pods gave up; nothing to judge if none was, and none had to be.

    Poisoned messages have to fail: they are named and do not count. Those that should have failed
    and did not leave the SLO undetermined: the run was not the planned one.
    """
    found = measures.accounting
    if not found.failed and found.poisoned is None:
        return []
    value, by_plan = found.failed_unplanned, found.failed_by_plan
    if value is None or by_plan is None:
        reason = f"{found.failed} failed, but the table bad_messages does not list them all"
        return [slo.result("undetermined", None, reason)]
    planned = f"{by_plan} of {found.poisoned or 0} poisoned messages were given up, as planned"
    groups = [g for g in found.bad_messages if g.message_class == message_classes.FAILED]
    if slo.limit is not None and value > slo.limit:
        reason = f"{value} more than the poisoned ones: {describe_groups(measures, groups)}"
        return [slo.result("fail", value, reason)]
    unsure = [*unsettled_end(measures)[:1], *doubts]
    if by_plan != (found.poisoned or 0):
        unsure.append("the others did not fail")
    if unsure:
        return [slo.result("undetermined", value, f"{planned}, but {'; '.join(unsure)}")]
    return [slo.result("pass", value, planned)]


def _count(
    measures: Measures,
    slo: Slo,
    message_class: str,
    doubts: Sequence[str],
    *,
    in_doubt: int = 0,
) -> SloResult:
    value = NAMED[slo.name].read(measures)
    if value is None:
        return slo.result("undetermined", None, "there is no accounting")
    facts = measures.accounting
    if not facts.in_log:
        return slo.result("undetermined", value, "nothing is in the log")
    groups = [group for group in facts.bad_messages if group.message_class == message_class]
    reported = describe_groups(measures, groups)
    listed, total = sum(group.count for group in groups), getattr(facts, message_class) or 0
    if 0 < listed < total:
        reported += f"; bad_messages lists these {listed} of {total}"
    if message_class == message_classes.LOST and facts.lost_in_broker:
        gone = f"{facts.lost_in_broker} acknowledged, but not in the log"
        reported = f"{reported}; {gone}" if reported else gone
    beside = _unledgered(measures) if message_class == message_classes.DUPLICATED else ""
    beside = f"; {beside}" if beside else ""
    nameless = _without_header(measures) if message_class == message_classes.LOST else 0
    if slo.limit is not None and value > slo.limit:
        if value - nameless > slo.limit:
            return slo.result("fail", value, f"{reported or f'{value} found'}{beside}")
        doubts = [f"{nameless} records of the output have no header", *doubts]
    unsure = [*unsettled_end(measures)[:1], *doubts]
    if unsure:
        reason = f"{value} found so far, but {'; '.join(unsure)}{beside}"
        return slo.result("undetermined", value, reason)
    whole = f"{facts.processed_distinct} of {facts.in_log} messages in the log processed"
    if not in_doubt:
        return slo.result("pass", value, f"{reported or whole}{beside}")
    reason = f"{reported or whole}; {in_doubt} more lie within the bound of two pods' clocks"
    return slo.judge(measures, reason)


def _without_header(measures: Measures) -> int:
    """Return the records of an output topic that may be of any message; 0 at other levels."""
    is_output = measures.accounting_level == "output"
    return (measures.accounting.foreign_ledger_records or 0) if is_output else 0


def _unledgered(measures: Measures) -> str:
    """Return the possible unrecorded work of killed pods; empty: none was killed at work."""
    killed = measures.accounting.unledgered
    if not killed:
        return ""
    counts = [found.messages for found in killed if found.messages is not None]
    is_bounded = len(counts) == len(killed)
    most = f"at most {sum(counts)} more" if is_bounded else "an unknown number more"
    pods = ", ".join(
        f"{found.pod} {found.seconds:.2f} s {moment(measures, found.killed_at)}"
        for found in killed[:NAMED_GROUPS]
    )
    more = f" and {len(killed) - NAMED_GROUPS} more" if len(killed) > NAMED_GROUPS else ""
    return (
        f"{most} were done by killed pods ({pods}{more}) and are not in the ledger:"
        " whether they were done again is unknown"
    )


def unknown_ownership(measures: Measures) -> list[str]:
    """Return where the owner of a partition is unknown: a pod's record is missing."""
    return [
        f"who owned {_partitions(found.partitions)} is not known before "
        f"{moment(measures, found.until_at)}: a rebalance record of {found.pod} is missing"
        for found in measures.accounting.unknown_ownership[:NAMED_GROUPS]
    ]


def unbounded_clocks(found: Accounting) -> list[str]:
    """Return the pods whose stamps cannot be compared with those of others."""
    if not found.unbounded_pods:
        return []
    named = ", ".join(found.unbounded_pods[:NAMED_GROUPS])
    more = len(found.unbounded_pods) - NAMED_GROUPS
    return [f"the clocks of {named}{f' and {more} more' if more > 0 else ''} are not bounded"]


def gaps_of_the_log(found: Accounting) -> list[str]:
    """Return why the log does not account for every acknowledged message."""
    reasons = []
    if found.produced_acked is None:
        reasons.append("the producer never reported the acknowledged messages")
    if found.not_in_log_unknown:
        reasons.append(
            f"{found.not_in_log_unknown} messages that the log lacks may have been acknowledged"
        )
    if found.not_in_log_excused:
        undelivered = (found.produced_failed or 0) + (found.produced_unknown or 0)
        reasons.append(
            f"{found.not_in_log_excused} messages are not in the log and {undelivered} deliveries "
            "failed or are unknown, but it is not recorded which"
        )
    reasons += _unless_zero(found.expired, "messages had expired before they were accounted for")
    return reasons + _unless_zero(found.log_holes, "offsets within the log hold no message")


def strange_work(found: Accounting) -> list[str]:
    """Return why the ledger cannot be compared with the log message by message."""
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
        reasons.append("without a fence it is unknown whether everything was consumed")
    elif not end.is_drained:
        places = _partitions(end.undrained_partitions)
        is_all = end.undrained_records == end.log_records
        why = ": the group committed no offset of any message" if is_all else ""
        reasons.append(f"{end.undrained_records} messages of {places} were not consumed{why}")
    elif waiting:
        reasons.append(f"{waiting} messages were not yet consumed")
    if end.log_records == 0 or measures.accounting.in_log == 0:
        reasons.append("the log holds no message: there was nothing to lose or to drain")
    if end.is_group_stable is None:
        reasons.append("it is unknown whether the group was settled at the end")
    elif not end.is_group_stable:
        reasons.append(f"the group was {end.group_state} at the end")
    return reasons


def describe_groups(measures: Measures, groups: Sequence[BadMessageGroup]) -> str:
    """Return pod, partitions and cause of the groups, largest groups first."""
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
