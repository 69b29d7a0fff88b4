"""The tables of the page on the advisor are those of its kept advices."""

from __future__ import annotations

from tests.advisor_tables import FOLDER, tables


def test_the_page_has_the_tables_of_the_kept_advices() -> None:
    """After a proof ``python -m tests.advisor_tables`` prints the new ones."""
    page = (FOLDER / "README.md").read_text(encoding="utf-8")

    for table in tables().split("\n\n"):
        assert table in page
