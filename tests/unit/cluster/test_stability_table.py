"""The recorded comparison of controllers and the tables that are told from it."""

from __future__ import annotations

import json

import pytest
from tests.cluster.stability.histories import HISTORIES
from tests.cluster.stability.table import table

from lagbench.project import PROJECT_ROOT

RECORDED = PROJECT_ROOT / "tests" / "data" / "stability"
FINDING = PROJECT_ROOT / "docs" / "findings" / "hand-rolled-controller.md"


@pytest.mark.parametrize("history", HISTORIES)
def test_the_finding_reports_what_was_recorded(history: str) -> None:
    """Each table is that of its file, and the file's lag is that of the history."""
    recorded = json.loads((RECORDED / f"{history}.json").read_text(encoding="utf-8"))

    assert recorded["lags"] == HISTORIES[history]()
    assert table(recorded) in FINDING.read_text(encoding="utf-8")
