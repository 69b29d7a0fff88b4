"""Where kept outcomes lie, and how they are written."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "data"
TRACES = "real_keda"
KEPT = {
    "hpa": "hpa_oracle.json.gz",
    "lag": "keda_kafka_lag_oracle.json.gz",
    "webhook": "keda_webhook_cases.json.gz",
}


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document as the kept ones are: the same content is the same bytes."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))
