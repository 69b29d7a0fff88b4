"""The forms of docker compose's suite: what CI runs when its time is short."""

from __future__ import annotations

from tests.compose.__main__ import suite

from lagbench.project import PROJECT_ROOT


def test_the_whole_suite_has_every_file() -> None:
    """A file of tests that is not named would never run."""
    files = PROJECT_ROOT.glob("tests/compose/test_*.py")

    assert sorted(suite(is_short=False)) == sorted(str(f.relative_to(PROJECT_ROOT)) for f in files)


def test_the_short_form_starts_rehearses_and_takes_down() -> None:
    """It is a part of the whole, in the same order."""
    short = suite(is_short=True)

    assert short == [file for file in suite(is_short=False) if file in short]
    assert {"start", "rehearsal", "end"} == {
        file.removeprefix("tests/compose/test_").removesuffix(".py") for file in short
    }
