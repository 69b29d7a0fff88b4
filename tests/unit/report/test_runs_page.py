"""The page of all runs: what its address filters and sorts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from lagbench.core.compare.cell_history import LIMIT_PREFIX, HistoryRow
from lagbench.report.runs_page import ON_A_PAGE, RunsQuery, render_runs


def row(run_id: str, **changed: Any) -> HistoryRow:
    """Return the line of a run."""
    known: dict[str, Any] = {
        "run_id": run_id,
        "created_at": 1,
        "scenario": "quick_spike",
        "policy": "lag",
        "seed": 1,
        "fidelity": "processes",
        "cell": "c" * 64,
        "verdict": "pass",
        "is_invalid": False,
        "measures": {},
    }
    return HistoryRow.model_validate(known | changed)


def page(rows: list[HistoryRow], **asked: Any) -> str:
    """Return the page for a query."""
    by = {"manual": "ada"}
    return render_runs(
        rows, RunsQuery(**asked), prefix="/air/bench", by=lambda _: by, reports={"a"}
    )


def shown(html: str) -> list[str]:
    """Return the runs of a page in their order."""
    return re.findall(r'name="run" value="([^"]+)"', html)


ROWS = [
    row("a", created_at=1, measures={"drain_seconds": 9.0}, manifest={"conf.dag_run": "manual"}),
    row("b", created_at=2, policy="cron", verdict="fail"),
    row("c", created_at=3, scenario="hello", measures={"drain_seconds": 4.0}),
]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["c", "b", "a"]),
        ({"policy": "lag"}, ["c", "a"]),
        ({"verdict": "fail", "scenario": "hello"}, []),
        ({"q": "MANUAL seed 1"}, ["a"]),
        ({"sort": "began"}, ["a", "b", "c"]),
        ({"sort": "drain_seconds"}, ["c", "a", "b"]),
        ({"sort": "-drain_seconds"}, ["a", "c", "b"]),
        ({"sort": "__class__"}, ["c", "b", "a"]),
        ({"page": 99}, ["c", "b", "a"]),
    ],
)
def test_the_address_filters_and_sorts(asked: dict[str, Any], expected: list[str]) -> None:
    """A run without the measure comes last, either way."""
    assert shown(page(ROWS, **asked)) == expected


def test_a_choice_has_the_words_of_the_table() -> None:
    """Of a verdict; the address keeps its code, and the name of a scenario its letters."""
    observed = row("d", verdict="not_judged", scenario="own_group")

    html = page([*ROWS, observed], verdict="not_judged")

    assert shown(html) == ["d"]
    assert '<option value="not_judged" selected>not judged</option>' in html
    assert '<option value="own_group">own_group</option>' in html
    assert ">not_judged<" not in html


def test_a_row_shows_limits_its_starter_and_a_report_that_is_there() -> None:
    """A value beyond its limit is marked as the verdict saw it."""
    over = {"drain_seconds": 9.0, f"{LIMIT_PREFIX}drain_seconds": 8.0}
    html = page([ROWS[0].model_copy(update={"measures": over, "verdict": "fail"}), ROWS[1]])

    assert re.search(r'<td class="n fail">9.0<span class="of"> / 8.0</span>', html)
    assert "<td>ada</td>" in html
    assert re.findall(r'href="/air/bench/runs/([^"]+)"', html) == ["a/report.html"]


def test_a_page_has_some_of_many_runs() -> None:
    """The links keep what was asked."""
    html = page([row(f"run-{n}") for n in range(ON_A_PAGE + 1)], q="run", page=2)

    assert len(shown(html)) == 1
    assert 'href="/air/bench/runs?q=run"' in html


def test_text_of_a_stranger_is_text() -> None:
    """Names of files, policies and Dag runs come from users."""
    bad = '"><script>alert(1)</script>'
    html = page([row("a", policy=bad, scenario=bad)], q=bad)

    assert "<script>alert" not in html
