"""The faults of the guard follow the code."""

from __future__ import annotations

import pytest
from tests.faults.__main__ import ROOT, faults, place_of


@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault["what"])
def test_the_place_and_the_tests_of_a_fault_exist(fault: dict[str, str]) -> None:
    """``python -m tests.faults`` then shows that these tests notice it."""
    assert place_of(fault).is_file()
    assert fault["new"] != fault["old"]
    assert all((ROOT / test.split("::")[0]).exists() for test in fault["tests"].split())
