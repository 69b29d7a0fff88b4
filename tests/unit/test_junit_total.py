"""The last line of CI."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.junit_total import failed_tests, main, passed_again, slowest, total

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


def _report(path: Path, **outcomes: str) -> str:
    cases = "".join(
        f'<testcase classname="tests.e2e.test_a" name="test_{name}[x y]">{outcome}</testcase>'
        for name, outcome in outcomes.items()
    )
    bad = sum(bool(outcome) for outcome in outcomes.values())
    counts = f'tests="{len(outcomes)}" failures="{bad}" errors="0" skipped="0"'
    path.write_text(f"<testsuites><testsuite {counts}>{cases}</testsuite></testsuites>")
    return str(path)


def test_failed_tests_are_named_as_pytest_takes_them(tmp_path: Path) -> None:
    """Failures and errors of a set-up are both named, by file, name and parameters."""
    report = _report(tmp_path / "a.xml", one="<failure/>", two="", three="<error/>")

    found = failed_tests([report])
    assert found == ["tests/e2e/test_a.py::test_one[x y]", "tests/e2e/test_a.py::test_three[x y]"]


def test_a_test_passes_again_only_if_it_ran_again(tmp_path: Path) -> None:
    """One that fails again, or that did not run again, has not passed."""
    bad = "<failure/>"
    first = _report(tmp_path / "a.xml", one=bad, two=bad, three=bad, four="")
    again = _report(tmp_path / "b.xml", one="", two=bad)

    assert passed_again([first], [again]) == ["tests/e2e/test_a.py::test_one[x y]"]


def test_a_test_that_passed_alone_is_named_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sum counts it as passed, and the line above says that it failed first."""
    first = _report(tmp_path / "a.xml", one="<failure/>", two="<failure/>", three="")
    again = _report(tmp_path / "b.xml", one="")

    assert main([first, "--again", again]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].endswith("tests/e2e/test_a.py::test_one[x y]")
    assert lines[-1] == "2 passed, 1 failed, 0 skipped"
