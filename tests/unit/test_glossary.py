"""The glossary says where each word lives."""

from __future__ import annotations

import re

import pytest

from lagbench.project import PROJECT_ROOT
from lagbench.report.words import WORDS

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (PROJECT_ROOT / "docs/glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| word ")
]


ROOTS = (PROJECT_ROOT / "include/lagbench", PROJECT_ROOT)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_the_file_of_a_word_names_it(row: list[str]) -> None:
    """Each row has word, meaning and a file or folder of the project, which has the word in it."""
    word, meaning, file = row[0], row[1], row[-1].strip("`")

    assert meaning
    assert file
    places = [root / file for root in ROOTS if (root / file).exists()]
    assert places
    files = [at for place in places for at in ([place] if place.is_file() else place.rglob("*"))]
    texts = [at.read_text(encoding="utf-8") for at in files if at.suffix in {".py", ".yaml"}]
    parts = map(re.escape, re.split(r"[\s-]", word))
    spelt = re.compile(r"[\s_-]+".join(parts), re.IGNORECASE)
    assert any(spelt.search(re.sub(r"[\n#]", " ", text)) for text in texts)


def test_a_word_has_one_meaning() -> None:
    """No word stands in the glossary twice."""
    words = [row[0] for row in ROWS]

    assert sorted(words) == sorted(set(words))


def test_the_report_explains_its_words_as_the_glossary_does() -> None:
    """Its tooltips are the beginnings of the rows."""
    meanings = {row[0]: row[1] for row in ROWS}

    assert [word for word in WORDS if not meanings[word].startswith(WORDS[word])] == []
