"""The glossary says where each word lives."""

from __future__ import annotations

import pytest

from lagbench.project import PROJECT_ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (PROJECT_ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| word ")
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_file_of_a_word_is_there(row: list[str]) -> None:
    """Each row has word, meaning and a file or folder of the project."""
    _, meaning, file = row[0], row[1], row[-1].strip("`")

    assert meaning
    roots = (PROJECT_ROOT / "include/lagbench", PROJECT_ROOT)
    assert file
    assert any((root / file).exists() for root in roots)


def test_a_word_has_one_meaning() -> None:
    """No word stands in the glossary twice."""
    words = [row[0] for row in ROWS]

    assert sorted(words) == sorted(set(words))
