"""The last line of CI."""

from __future__ import annotations

from pathlib import Path

from tests.junit_total import total

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
