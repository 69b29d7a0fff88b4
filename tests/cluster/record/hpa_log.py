"""The syncs of one HPA, as the log of kube-controller-manager tells of them at level 4."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

_LINE = re.compile(r"[IE](?P<at>\d{4} \d\d:\d\d:\d\d\.\d{6}) .*?\] (?P<text>.*)")
_FIELD = re.compile(r'(\w+)=(?:"((?:[^"\\]|\\.)*)"|(\S+))')


def read_syncs(lines: Iterable[str], name: str, began_at: float) -> list[dict[str, Any]]:
    """Return the syncs of the HPA on ``Deployment/default/NAME`` since ``began_at``.

    A sync proposes, then scales or decides not to; or it says why it can do neither.
    """
    target, hpa = f"Deployment/default/{name}", f"default/keda-hpa-{name}"
    syncs: list[dict[str, Any]] = []
    proposed: dict[str, Any] | None = None
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        at, text = _instant(found["at"]), found["text"]
        values = {key: quoted or plain for key, quoted, plain in _FIELD.findall(text)}
        is_own = values.get("scaleTarget") == target or values.get("HPA") == hpa
        if at < began_at or not (is_own or f" for {target}: " in text):
            continue
        begun = proposed or {"t": at, "t_rel": round(at - began_at, 3)}
        if text.startswith('"Proposing desired replicas'):
            raw = int(values["desiredReplicas"])
            begun = {"t": at, "t_rel": round(at - began_at, 3)}
            proposed = {**begun, "raw_proposal": raw, "metric": values["metric"]}
            continue
        if text.startswith('"Successfully rescaled"'):
            frm, to = int(values["currentReplicas"]), int(values["desiredReplicas"])
            done = {"action": "scale", "frm": frm, "to": to, "reason": values["reason"]}
            syncs.append({**begun, **done, "t_done": at})
        elif text.startswith('"Decided not to scale"'):
            syncs.append({**begun, "action": "none", "to": int(values["desiredReplicas"])})
        elif "failed to compute desired number of replicas" in text:
            syncs.append({**begun, "action": "error", "error": text})
        else:
            continue
        proposed = None
    return syncs


def _instant(text: str) -> float:
    """Return a time of the log, which has no year and is local."""
    year = datetime.now(UTC).astimezone().year
    return datetime.strptime(f"{year}{text}", "%Y%m%d %H:%M:%S.%f").astimezone().timestamp()
