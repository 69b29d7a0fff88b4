"""``python -m tests.junit_total FILE…``: the sum of JUnit files in one line, as pytest counts."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path


def total(files: list[str]) -> tuple[int, int, int]:
    """Return how many tests passed, failed (errors too) and were skipped."""
    passed = failed = skipped = 0
    for file in files:
        report = ET.fromstring(Path(file).read_bytes())  # noqa: S314 - pytest wrote it
        for suite in report.iter("testsuite"):
            bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            left_out = int(suite.get("skipped", 0))
            passed += int(suite.get("tests", 0)) - bad - left_out
            failed += bad
            skipped += left_out
    return passed, failed, skipped


if __name__ == "__main__":
    counts = total(sys.argv[1:])
    sys.stdout.write("{} passed, {} failed, {} skipped\n".format(*counts))
    sys.exit(0 if counts[0] else 1)
