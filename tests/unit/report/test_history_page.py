"""The page of a cell over time."""

from __future__ import annotations

import re
from typing import Any

from tests.unit.report.test_runs_page import row

from lagbench.core.compare.cell_history import LIMIT_PREFIX, HistoryRow
from lagbench.report.history_page import by_name, render_cells, render_history
from lagbench.results.compared_runs import Baseline


def night(number: int, cell: str = "a", **manifest: str) -> HistoryRow:
    """Return the line of a night."""
    measures = {"drain_seconds": 10.0 + number, f"{LIMIT_PREFIX}drain_seconds": 30.0, "lost": 0.0}
    return row(
        f"night-{number}",
        created_at=number,
        cell=cell * 64,
        measures=measures,
        manifest={"cell.policy": cell * 64, **manifest},
    )


NIGHTS = [
    night(1),
    night(2, **{"versions.kafka-broker": "4.3.2"}),
    night(3, "b", **{"versions.kafka-broker": "4.3.2"}),
]
BASE = Baseline(
    run_id="night-3", cell="b" * 64, pinned_at=3, reason="accepted", accepted_by="<ada>"
)


GIVEN: dict[str, Any] = {
    "prefix": "/bench",
    "pinned": BASE,
    "accepted": [BASE],
    "acceptable": {"night-2"},
    "reports": {"night-1"},
}


def page(**changed: Any) -> str:
    """Return the page of three nights."""
    return render_history(by_name(NIGHTS)["quick_spike/lag/1"], **GIVEN | changed)


def test_changes_of_policy_and_versions_are_marked() -> None:
    """One picture for each measure that is not 0 in every run, with limit and baseline."""
    html = page()

    assert re.findall(r'<line class="changed (\w*)"', html) == ["version", ""]
    assert "from night-2 on: versions.kafka-broker: not recorded against 4.3.2" in html
    assert "from night-3 on: the policy&#39;s content changed" in html
    assert html.count("<svg") == 1
    assert html.count('<line class="limit"') == 1
    assert html.count('class="ring"') == 2  # in the picture and its key


def test_the_key_names_what_is_drawn() -> None:
    """No limit and no baseline where there is none, and a mark of its own for undetermined."""
    update = {"verdict": "undetermined", "measures": {"drain_seconds": 9.0}}
    keys = (
        re.findall(r'<li><i class="([^"]+)"></i>', html)
        for html in (
            page(),
            render_history([NIGHTS[0].model_copy(update=update)], **GIVEN | {"pinned": None}),
        )
    )

    assert list(keys) == [
        ["dot", "dot no", "ring", "line base", "line", "line changed"],
        ["dot", "dot no", "dot other"],
    ]


def test_changes_at_one_place_have_one_number() -> None:
    """From the first to the last of them: numbers on each other cannot be read."""
    both = night(2, "b", **{"versions.kafka-broker": "4.3.2"})
    html = render_history([night(1), both, night(3, "b")], **GIVEN)

    assert re.findall(r'<line class="changed (\w*)"', html) == ["", "version", "version"]
    assert re.findall(r'<text class="change"[^>]*>([^<]+)<', html) == ["1–2", "3"]


def test_a_reader_with_the_right_can_accept() -> None:
    """And sees who accepted the baseline that there is."""
    html = page()

    assert re.findall(r'name="run" value="([^"]+)"', html) == ["night-2"]
    assert "<td>&lt;ada&gt;</td>" in html
    assert "<form" not in page(acceptable=())


def test_cells_are_listed_by_name() -> None:
    """Cells of one name are one line: a changed policy is a mark in it."""
    html = render_cells(NIGHTS, prefix="/bench")

    assert re.findall(r'href="/bench/history\?cell=([^"]+)"', html) == ["quick_spike%2Flag%2F1"]
