"""Count the messages of the planned window that were never done: ``lag/never_done.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from lagbench.core.measures.accounting.accounting import Accounting, BadMessage
from lagbench.core.measures.lag import NeverDone
from lagbench.shared_with_spark import message_classes as classes

_UNDONE = (classes.LOST, classes.NOT_IN_LOG, classes.NOT_YET_CONSUMED)


def never_done(
    found: Accounting, rows: Iterable[BadMessage], planned_messages: int
) -> NeverDone | None:
    """Return the bounds of the count; None: without an accounting it is not known.

    A message of the planned window has a seq below ``planned_messages``. One that is not listed,
    or has no seq, may be of the window. A message that left the log, or whose delivery may have
    failed, proves nothing, and a record of the ledger that names no message may be of any.
    """
    if found.lost is None or found.not_yet_consumed is None:
        return None
    undone = [row for row in rows if row.message_class in _UNDONE]
    inside = Counter(
        row.message_class for row in undone if row.seq is not None and row.seq < planned_messages
    )
    outside = sum(row.seq is not None and row.seq >= planned_messages for row in undone)
    absent = (found.not_in_log or 0) + (found.not_in_log_excused or 0)
    in_doubt = absent - (found.lost_in_broker or 0) + (found.foreign_ledger_records or 0)
    gone = max(0, inside[classes.NOT_IN_LOG] + inside[classes.LOST] - in_doubt)
    most = found.lost + absent + found.not_yet_consumed - outside
    return NeverDone(
        planned=planned_messages,
        at_least=min(gone, planned_messages),
        at_most=max(0, min(most, planned_messages)),
    )
