"""What can be wrong with a message; the values of ``class`` in the table bad_messages."""

from __future__ import annotations

from typing import Final

LOST: Final = "lost"  # in the log, below the committed offset, never processed
NOT_YET_CONSUMED: Final = "not_yet_consumed"  # in the log, at or above the committed offset
DUPLICATED: Final = "duplicated"  # one processing too many of the same offset
REORDERED: Final = "reordered"  # begun after a later message of its owner, or of its key
ZOMBIE: Final = "zombie"  # done by a former owner after the next owner had begun
PRODUCED_TWICE: Final = "produced_twice"  # the same seq at a further offset
NOT_IN_LOG: Final = "not_in_log"  # a seq that was produced but is at no offset
UNKNOWN_MESSAGE: Final = "unknown_message"  # processed, but the log holds no such message

CLASSES: Final = (
    LOST,
    NOT_YET_CONSUMED,
    DUPLICATED,
    REORDERED,
    ZOMBIE,
    PRODUCED_TWICE,
    NOT_IN_LOG,
    UNKNOWN_MESSAGE,
)
