"""Judge SLOs on messages by identity: lost, failed, duplicated, reordered, zombies.

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

from lagbench.core.measures.accounting.accounting import Accounting, BadMessageGroup
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.verdict.slo import Slo, SloResult
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


def count_of_messages(measures: Measures, slo: Slo, *, of: str) -> SloResult:
    """Judge how many messages are of the class ``of``."""
    value, facts = NAMED[slo.name].read(measures), measures.accounting
    if value is None:
        return slo.unknown("there is no accounting")
    if not facts.in_log:
        return slo.unknown("nothing is in the log", value)
    reported, doubts = _found_of_class(measures, of), _doubts_of_class(measures, of)
    beside = _unledgered(measures) if of == message_classes.DUPLICATED else ""
    nameless = 0
    if of == message_classes.LOST and measures.accounting_level == "output":
        nameless = facts.foreign_ledger_records or 0  # each may be of any message
    if slo.limit is not None and value > slo.limit:
        if value - nameless > slo.limit:
            return slo.result("fail", value, f"{reported or f'{value:,} found'}{beside}")
        doubts = [f"{nameless:,} records of the output have no header", *doubts]
    unsure = [*unsettled_end(measures)[:1], *doubts]
    if unsure:
        return slo.unknown(f"{value:,} found so far, but {'; '.join(unsure)}{beside}", value)
    done = "–" if facts.processed_distinct is None else f"{facts.processed_distinct:,}"
    whole = f"{done} of {facts.in_log:,} messages in the log processed"
    in_doubt = getattr(facts, f"{of}_in_doubt", 0) or 0
    if not in_doubt:
        return slo.result("pass", value, f"{reported or whole}{beside}")
    close = f"{in_doubt:,} more lie within the bound of two pods' clocks"
    return slo.judge(measures, f"{reported or whole}; {close}")


def _found_of_class(measures: Measures, of: str) -> str:
    facts = measures.accounting
    groups = [group for group in facts.bad_messages if group.message_class == of]
    shown = [describe_groups(measures, groups)] if groups else []
    listed, total = sum(group.count for group in groups), getattr(facts, of) or 0
    if 0 < listed < total:
        shown.append(f"bad_messages lists these {listed:,} of {total:,}")
    if of == message_classes.LOST and facts.lost_in_broker:
        shown.append(f"{facts.lost_in_broker:,} acknowledged, but not in the log")
    return "; ".join(shown)


def _doubts_of_class(measures: Measures, of: str) -> list[str]:
    """Return why finding none of a class proves nothing."""
    found, doubts = measures.accounting, []
    if of == message_classes.LOST:
        doubts += gaps_of_the_log(found)
    if of == message_classes.ZOMBIE:
        doubts += [
            f"who owned {_partitions(hole.partitions)} is not known before "
            f"{measures.moment(hole.until_at)}: a rebalance record of {hole.pod} is missing"
            for hole in found.unknown_ownership[:NAMED_GROUPS]
        ]
    if found.unbounded_pods and of in (message_classes.REORDERED, message_classes.ZOMBIE):
        named = _few(found.unbounded_pods, NAMED_GROUPS)
        doubts.append(f"the clocks of {named} are not bounded")
    return doubts + strange_work(found)


def failed_messages(measures: Measures, slo: Slo) -> SloResult | None:
    """Judge messages that pods gave up; nothing to judge if none was, and none had to be.

    Poisoned messages have to fail: they are named and do not count. Those that should have failed
    and did not leave the SLO undetermined: the run was not the planned one.
    """
    found = measures.accounting
    if not found.failed and found.poisoned is None:
        return None
    value, by_plan = found.failed_unplanned, found.failed_by_plan
    if value is None or by_plan is None:
        return slo.unknown(
            f"{found.failed:,} failed, but the table bad_messages does not list them all"
        )
    planned = f"{by_plan:,} of {found.poisoned or 0:,} poisoned messages were given up, as planned"
    if slo.limit is not None and value > slo.limit:
        groups = [g for g in found.bad_messages if g.message_class == message_classes.FAILED]
        shown = describe_groups(measures, groups)
        return slo.result("fail", value, f"{value:,} more than the poisoned ones: {shown}")
    unsure = [*unsettled_end(measures)[:1], *strange_work(found)]
    if by_plan != (found.poisoned or 0):
        unsure.append("the others did not fail")
    if unsure:
        return slo.unknown(f"{planned}, but {'; '.join(unsure)}", value)
    return slo.result("pass", value, planned)


def _unledgered(measures: Measures) -> str:
    """Return the possible unrecorded work of killed pods; empty: none was killed at work."""
    killed = measures.accounting.unledgered
    if not killed:
        return ""
    counts = [found.messages for found in killed if found.messages is not None]
    is_bounded = len(counts) == len(killed)
    most = f"at most {sum(counts):,} more" if is_bounded else "an unknown number more"
    pods = [
        f"{found.pod} {found.seconds:.2f} s {measures.moment(found.killed_at)}" for found in killed
    ]
    return (
        f"; {most} were done by killed pods ({_few(pods, NAMED_GROUPS)}) and are not in the ledger:"
        " whether they were done again is unknown"
    )


def gaps_of_the_log(found: Accounting) -> list[str]:
    """Return why the log does not account for every acknowledged message."""
    reasons = []
    if found.produced_acked is None:
        reasons.append("the producer never reported the acknowledged messages")
    if found.not_in_log_unknown:
        reasons.append(
            f"{found.not_in_log_unknown:,} messages that the log lacks may have been acknowledged"
        )
    if found.not_in_log_excused:
        undelivered = (found.produced_failed or 0) + (found.produced_unknown or 0)
        reasons.append(
            f"{found.not_in_log_excused:,} messages are not in the log and {undelivered:,} "
            "deliveries failed or are unknown, but it is not recorded which"
        )
    reasons += _unless_zero(found.expired, "messages had expired before they were accounted for")
    return reasons + _unless_zero(found.log_holes, "offsets within the log hold no message")


def strange_work(found: Accounting) -> list[str]:
    """Return why the ledger cannot be compared with the log message by message."""
    return _unless_zero(found.unknown_message, "processings are of no message in the log")


def _unless_zero(count: int | None, text: str) -> list[str]:
    return (
        []
        if count == 0
        else [f"{'it is not known how many' if count is None else f'{count:,}'} {text}"]
    )


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
        reasons.append(f"{end.undrained_records:,} messages of {places} were not consumed{why}")
    elif waiting:
        reasons.append(f"{waiting:,} messages were not yet consumed")
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
        when = "" if group.first_at is None else f", first {measures.moment(group.first_at)}"
        where = _partitions(group.partitions)
        texts.append(f"{group.count:,} by {who}{other} on {where} {cause}{of_pod}{when}")
    left = sum(group.count for group in groups[NAMED_GROUPS:])
    return "; ".join(texts) + (f"; {left} more" if left else "")


def _partitions(partitions: Sequence[int]) -> str:
    if not partitions:
        return "no known partition"
    word = "partition" if len(partitions) == 1 else "partitions"
    return f"{word} {_few([str(partition) for partition in partitions], NAMED_PARTITIONS)}"


def _few(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"
