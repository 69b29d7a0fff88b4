"""The tables of the page on the advisor are those of its kept advices."""

from __future__ import annotations

from tests.advisor_tables import FOLDER, tables
from tests.unit.findings.kept import kept_runs


def test_the_page_has_the_tables_of_the_kept_advices() -> None:
    """After a proof ``python -m tests.advisor_tables`` prints the new ones."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")

    for table in tables().split("\n\n"):
        assert table in page


def test_the_waits_on_other_seeds_are_those_of_the_kept_runs() -> None:
    """Each cell of a row ends with the time lag that was measured."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    rows = {
        int(cells[0]): cells[3:]
        for line in page.splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
        and cells[0].isdigit()
    }
    roles = ("pick", "runner_up", "present")

    found = {
        (measures.seed, record["cell"]): measures.lag.time_lag_seconds.p99 or 0.0
        for record, measures in kept_runs("advisor/other_seeds")
    }

    assert len(found) == len(rows) * len(roles) > 0
    for (seed, role), p99 in found.items():
        assert rows[seed][roles.index(role)].endswith(f", {p99:.1f} s"), (seed, role)
