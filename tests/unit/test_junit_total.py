"""The last line of CI."""

from __future__ import annotations

from pathlib import Path

from tests.junit_total import slowest, total

SUITE = (
    '<testsuites><testsuite name="pytest" tests="{}" failures="{}" errors="{}" skipped="{}"/>'
    "</testsuites>"
)


def test_the_sum_is_of_all_files(tmp_path: Path) -> None:
    """Errors are failures; what is neither failed nor skipped passed."""
    files = [tmp_path / "a.xml", tmp_path / "b.xml"]
    files[0].write_text(SUITE.format(10, 1, 2, 3))
    files[1].write_text(SUITE.format(5, 0, 0, 0))

    assert total([str(file) for file in files]) == (9, 3, 3)


def test_the_slowest_tests_come_first(tmp_path: Path) -> None:
    """They are named with their file and seconds, from all reports."""
    cases = '<testcase classname="a" name="quick" time="1.5"/>'
    cases += '<testcase classname="b" name="slow" time="9.5"/>'
    report = tmp_path / "unit.xml"
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")

    assert slowest([str(report), str(report)], 3) == [
        (9.5, "b::slow"),
        (9.5, "b::slow"),
        (1.5, "a::quick"),
    ]
