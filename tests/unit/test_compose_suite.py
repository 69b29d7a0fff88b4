"""The files of docker compose's suite."""

from __future__ import annotations

from tests.compose.__main__ import SUITE

from lagbench.project import PROJECT_ROOT


def test_the_whole_suite_has_every_file() -> None:
    """A file of tests that is not named would never run."""
    files = PROJECT_ROOT.glob("tests/compose/test_*.py")

    assert sorted(SUITE) == sorted(str(f.relative_to(PROJECT_ROOT)) for f in files)
