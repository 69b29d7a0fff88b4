"""Retry the calls of a Kubernetes client while the API server is unreachable."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib3 import Retry

OUTAGE_SECONDS = 45.0
"""Patience of calls that have to succeed: an upgrade of an API server's host takes less."""
_LONGEST_PAUSE_SECONDS = 2.0
_FIRST_PAUSES = 3
"""0, 0.5 and 1 s; all later ones are the longest."""
_NOT_NOW = (429, 500, 502, 503, 504)
"""500 too: a leader's change in etcd, or a webhook without an answer."""
_BROKEN_ANSWERS = 3


def patient_retries(patience_seconds: float) -> Retry | int:
    """Return retries that last for ``patience_seconds`` while connections are rejected.

    Without patience a call is tried once more.

    Every verb is tried again, also one whose answer was lost: an apply and a delete say the same
    twice, and a create finds its own object and leaves it.
    """
    if not patience_seconds:
        return 1
    from urllib3 import Retry

    tries = _FIRST_PAUSES + math.ceil(patience_seconds / _LONGEST_PAUSE_SECONDS)
    return Retry(
        total=None,
        connect=tries,
        read=_BROKEN_ANSWERS,
        status=tries,
        other=0,
        allowed_methods=None,
        status_forcelist=_NOT_NOW,
        raise_on_status=False,  # the last answer then becomes an error of the client
        backoff_factor=0.25,
        backoff_max=_LONGEST_PAUSE_SECONDS,
    )
