"""The page of all runs: filtered, searched and sorted by what its address says."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from lagbench.core.compare.cell_history import LIMIT_PREFIX, HistoryRow
from lagbench.core.compare.earlier_runs import SHOWN
from lagbench.core.measures.measures import NAMED
from lagbench.report.bench_page import link, render_bench_page

ON_A_PAGE = 100
NEWEST_FIRST = "-began"
_CHOICES = ("scenario", "policy", "verdict", "fidelity")
_FIELDS: Mapping[str, str] = {"began": "created_at", **{name: name for name in _CHOICES}}
"""Of the columns that a reader can sort by, beside the measures."""


@dataclass(frozen=True, slots=True)
class RunsQuery:
    """The query of the page's address; an empty value filters nothing.

    ``sort``: a column, with ``-`` in front of it downwards; one that is not known is the default.
    """

    q: str = ""
    scenario: str = ""
    policy: str = ""
    verdict: str = ""
    fidelity: str = ""
    sort: str = NEWEST_FIRST
    page: int = 1

    def address(self, prefix: str, **changed: object) -> str:
        """Return the page's address with some values changed."""
        asked = replace(self, **changed)  # type: ignore[arg-type]
        default = asdict(RunsQuery())
        given = {name: value for name, value in asdict(asked).items() if value != default[name]}
        return link(prefix, "runs", **given)

    def other_way(self, column: str) -> str:
        """Return the value of ``sort`` by a column: the other way round if it is sorted so."""
        down = f"-{column}"
        if self.sort in (column, down):
            return down if self.sort == column else column
        return down if column == "began" else column


def render_runs(
    rows: Sequence[HistoryRow],
    query: RunsQuery,
    *,
    prefix: str,
    by: Callable[[Sequence[str]], Mapping[str, str]],
    reports: Collection[str],
) -> str:
    """Return the page's HTML.

    :param by: returns who started each of the Dag runs of the shown rows.
    :param reports: the runs that have a report.
    """
    found = _sorted([row for row in rows if _fits(row, query)], query.sort)
    pages = max(1, -(-len(found) // ON_A_PAGE))
    page = min(max(query.page, 1), pages)
    shown = found[(page - 1) * ON_A_PAGE : page * ON_A_PAGE]
    started_by = by([dag_run for row in shown if (dag_run := dag_run_of(row))])
    return render_bench_page(
        "runs",
        title="Runs",
        here="runs",
        prefix=prefix,
        query=replace(query, page=page),
        pages=pages,
        total=len(rows),
        count=len(found),
        choices={name: _choices(rows, name) for name in _CHOICES},
        reports=reports,
        columns=[NAMED[name] for name in SHOWN],
        rows=[
            (row, [_value(row, name) for name in SHOWN], started_by.get(dag_run_of(row), ""))
            for row in shown
        ],
    )


def dag_run_of(row: HistoryRow) -> str:
    """Return the Dag run that made a run; empty: none did."""
    return row.manifest.get("conf.dag_run", "")


def _choices(rows: Sequence[HistoryRow], name: str) -> list[tuple[str, str]]:
    """Return the values of a column, each with its text; names of users stay as they are."""
    found = sorted({getattr(row, name) for row in rows})
    return [(one, one.replace("_", " ") if name == "verdict" else one) for one in found]


def _fits(row: HistoryRow, query: RunsQuery) -> bool:
    if any((asked := getattr(query, name)) and getattr(row, name) != asked for name in _CHOICES):
        return False
    seed = "" if row.seed is None else f"seed {row.seed}"
    named = f"{row.run_id} {row.cell_name} {row.verdict} {row.fidelity} {seed} {dag_run_of(row)}"
    return all(word in named.lower() for word in query.q.lower().split())


def _sorted(rows: Sequence[HistoryRow], sort: str) -> list[HistoryRow]:
    """Return the rows in their order; what is not known comes last, either way."""
    name = sort.removeprefix("-")
    if name not in _FIELDS and name not in SHOWN:
        name, sort = "began", NEWEST_FIRST

    def read(row: HistoryRow) -> Any:
        return getattr(row, _FIELDS[name]) if name in _FIELDS else row.measures.get(name)

    newest_first = sorted(rows, key=lambda row: row.created_at, reverse=True)
    known = [row for row in newest_first if read(row) is not None]
    known.sort(key=read, reverse=sort.startswith("-"))
    return [*known, *(row for row in newest_first if read(row) is None)]


def _value(row: HistoryRow, name: str) -> tuple[str, str, str]:
    """Return value, limit and status of a measure, as the table shows them."""
    value, limit = row.measures.get(name), row.measures.get(LIMIT_PREFIX + name)
    if value is None or limit is None:
        return NAMED[name].number(value), "", ""
    text, limit_text = NAMED[name].numbers(value, limit)
    is_over = "fail" if row.verdict == "fail" else "undetermined"
    return text, limit_text, is_over if value > limit else ""
