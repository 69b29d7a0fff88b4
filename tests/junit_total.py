"""``python -m tests.junit_total FILE…``: the slowest tests of JUnit files, and their sum.

The sum is one line, the last, as pytest counts.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

_SLOWEST = 25


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


def slowest(files: list[str], count: int) -> list[tuple[float, str]]:
    """Return seconds and name of the slowest tests, the longest first."""
    found = []
    for file in files:
        for case in ET.fromstring(Path(file).read_bytes()).iter("testcase"):  # noqa: S314
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            found.append((float(case.get("time", 0)), name))
    return sorted(found, reverse=True)[:count]


if __name__ == "__main__":
    for seconds, name in slowest(sys.argv[1:], _SLOWEST):
        sys.stdout.write(f"{seconds:6.0f} s  {name}\n")
    counts = total(sys.argv[1:])
    sys.stdout.write("{} passed, {} failed, {} skipped\n".format(*counts))
    sys.exit(0 if counts[0] else 1)
