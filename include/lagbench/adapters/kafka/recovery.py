"""Client settings with which a client works again soon after a broker outage.

A broker that stops can answer a last metadata request with partitions that have no leader. Without
a later transport error librdkafka requests that topic again only at its next refresh, which is 5
minutes by default: as long as our producers wait for a message. Seen in a rehearsal: one pod did
nothing for 5 minutes after an outage of 10 s, and then abandoned its work.
"""

from __future__ import annotations

from typing import Any

RECOVERY: dict[str, Any] = {
    "topic.metadata.refresh.interval.ms": 10_000,
    "reconnect.backoff.max.ms": 1_000,
}
"""For each client that must outlive an outage; partitions added during a run are seen, too."""
