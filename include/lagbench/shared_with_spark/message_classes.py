"""List the classes of messages and records, once for Spark, the accounting and the verdict.

Spark's jobs import it, so it needs only the standard library. Each family divides one counted
set; every member, even a foreign one, is in exactly one class of the family:

* an offset below the fence: in the log, expired, or a hole (counts of ``accounting.json``);
* a record in the log: processed, ``FAILED``, ``LOST``, ``NOT_YET_CONSUMED``, or ``FOREIGN``;
* a seq that the producer handed over: in the log, or one of ``ABSENT``;
* a processing in the ledger: a message's first (``FAILED`` if the message was given up),
  ``DUPLICATED``, ``UNKNOWN_MESSAGE``, or of a foreign record (a count).

``accounting/sums.py`` states these families as sums. Any other fault of a message (its order,
its owner, its seq at two places) is a class of its own, in addition to the one above.
"""

from __future__ import annotations

from typing import Final

LOST: Final = "lost"  # in the log, below the committed offset, never processed
NOT_YET_CONSUMED: Final = "not_yet_consumed"  # in the log, at or above the committed offset
FAILED: Final = "failed"  # given up after its attempts: the ledger has it as a dead letter
DUPLICATED: Final = "duplicated"  # one processing too many of the same offset
REORDERED: Final = "reordered"  # begun after a later message of its owner, or of its key
REORDERED_IN_DOUBT: Final = "reordered_in_doubt"  # too close for two clocks to decide
ZOMBIE: Final = "zombie"  # done by a former owner after the next owner had begun
ZOMBIE_IN_DOUBT: Final = "zombie_in_doubt"  # within two clocks' bound, or of unknown ownership
PRODUCED_TWICE: Final = "produced_twice"  # the same seq at another offset
NOT_IN_LOG: Final = "not_in_log"  # a seq that was acknowledged but is at no offset
NOT_IN_LOG_FAILED: Final = "not_in_log_failed"  # at no offset, and its delivery is known to fail
NOT_IN_LOG_UNKNOWN: Final = "not_in_log_unknown"  # at no offset, its delivery's outcome unknown
UNKNOWN_MESSAGE: Final = "unknown_message"  # processed, but the log holds no such message
FOREIGN: Final = "foreign"  # in the events topic, but no event of this run

ABSENT: Final = (NOT_IN_LOG, NOT_IN_LOG_FAILED, NOT_IN_LOG_UNKNOWN)
CLASSES: Final = (
    LOST,
    NOT_YET_CONSUMED,
    FAILED,
    DUPLICATED,
    REORDERED,
    REORDERED_IN_DOUBT,
    ZOMBIE,
    ZOMBIE_IN_DOUBT,
    PRODUCED_TWICE,
    *ABSENT,
    UNKNOWN_MESSAGE,
    FOREIGN,
)
"""The values of ``class`` in the table bad_messages; each is a count of ``accounting.json``."""

FOREIGN_LEDGER: Final = "foreign_ledger_records"
FOREIGN_TELEMETRY: Final = "foreign_telemetry_records"
FOREIGN_RECORDS: Final = (FOREIGN, FOREIGN_LEDGER, FOREIGN_TELEMETRY)
"""Counts of records that do not belong to this run, one for each of its topics."""
