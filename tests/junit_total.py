"""``python -m tests.junit_total FILE… [--again FILE…]``: sum up JUnit files.

The slowest tests are named first; the sum is the last line, as pytest counts. A test that failed
beside other suites and passed when it ran again alone (the files after ``--again``) has passed,
and is named above the sum. With ``--failed`` the failed tests are printed instead, one a line, as
pytest takes them.
"""

from __future__ import annotations

import argparse
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

_SLOWEST = 25


def total(files: Iterable[str]) -> tuple[int, int, int]:
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


def slowest(files: Iterable[str], count: int) -> list[tuple[float, str]]:
    """Return seconds and name of the slowest tests, the longest first."""
    found = []
    for case in _cases(files):
        name = f"{case.get('classname', '')}::{case.get('name', '')}"
        found.append((float(case.get("time", 0)), name))
    return sorted(found, reverse=True)[:count]


def failed_tests(files: Iterable[str]) -> list[str]:
    """Return the node ids of the tests that failed (errors too), each once, in order."""
    bad = [case for case in _cases(files) if {"failure", "error"} & {part.tag for part in case}]
    return list(dict.fromkeys(_node_id(case) for case in bad))


def passed_again(files: Iterable[str], again: Iterable[str]) -> list[str]:
    """Return the tests that failed in ``files`` and ran in ``again`` without a failure."""
    again = list(again)
    ran, bad = {_node_id(case) for case in _cases(again)}, failed_tests(again)
    return [test for test in failed_tests(files) if test in ran and test not in bad]


def _cases(files: Iterable[str]) -> Iterator[ET.Element]:
    for file in files:
        yield from ET.fromstring(Path(file).read_bytes()).iter("testcase")  # noqa: S314


def _node_id(case: ET.Element) -> str:
    module = case.get("classname", "").replace(".", "/")
    return f"{module}.py::{case.get('name', '')}"


def main(arguments: list[str]) -> int:
    """Print what was asked for; return 1 if no test passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.junit_total")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--again", nargs="*", default=[])
    parser.add_argument("--failed", action="store_true")
    options = parser.parse_args(arguments)
    if options.failed:
        sys.stdout.writelines(f"{test}\n" for test in failed_tests(options.files))
        return 0
    for seconds, name in slowest(options.files, _SLOWEST):
        sys.stdout.write(f"{seconds:6.0f} s  {name}\n")
    late = passed_again(options.files, options.again)
    sys.stdout.writelines(f"failed beside others, passed alone: {test}\n" for test in late)
    passed, failed, skipped = total(options.files)
    counts = passed + len(late), failed - len(late), skipped
    sys.stdout.write("{} passed, {} failed, {} skipped\n".format(*counts))
    return 0 if counts[0] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
