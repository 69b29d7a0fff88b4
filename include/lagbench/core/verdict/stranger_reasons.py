"""Report strangers in the consumer group as reasons why a run is undetermined.

Their work is in no ledger, and no pod of the run will process the messages that they committed:
anything lost, repeated or slow may be theirs.
"""

from __future__ import annotations

from lagbench.core.measures import Measures, moment
from lagbench.core.measures.evidence import GroupStranger

NAMED_STRANGERS = 5


def stranger_reasons(measures: Measures) -> list[str]:
    """Return why the run is undetermined, by stranger; empty when the group was the run's own."""
    strangers = measures.group_strangers
    reasons = [_stranger_text(one, measures) for one in strangers[:NAMED_STRANGERS]]
    if len(strangers) > NAMED_STRANGERS:
        left = len(strangers) - NAMED_STRANGERS
        reasons.append(f"{left} more members that are not pods of this run")
    if measures.group_gaps:
        longest = max(measures.group_gaps, key=lambda gap: gap.gap_seconds)
        more = len(measures.group_gaps) - 1
        reasons.append(
            f"the members of the group are unknown for {longest.gap_seconds:.1f} s from"
            f" {moment(measures, longest.started_at).removeprefix('at ')}: {longest.reason}"
            + (f", and in {more} more gaps" if more else "")
        )
    return reasons


def _stranger_text(one: GroupStranger, measures: Measures) -> str:
    span = f"{one.seen_seconds:.1f} s"
    if one.precision_seconds:
        low, high = one.seen_seconds, one.seen_seconds + one.precision_seconds
        span = f"{low:.1f} to {high:.1f} s"
    when = f"for {span} from {moment(measures, one.first_seen_at).removeprefix('at ')}"
    if one.client_id is None:
        what = "1 member" if one.members == 1 else f"{one.members} members"
        unowned = f"; no pod owned {_partitions(one.partitions)} then" if one.partitions else ""
        return f"{what} of the group more than the pods of this run, {when}{unowned}"
    held = "held no partition"
    if one.partitions:
        held = f"held {_partitions(one.partitions)}"
    return (
        f"a member that is not a pod of this run: client {one.client_id} on host {one.host} {held},"
        f" in the group {when}"
    )


def _partitions(numbers: tuple[int, ...]) -> str:
    named = ", ".join(map(str, numbers))
    return f"partition{'s' if len(numbers) > 1 else ''} {named}"
