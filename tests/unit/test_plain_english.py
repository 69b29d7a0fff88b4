"""The word list finds a planted phrase in each kind of text, and leaves code and quotes alone."""

from __future__ import annotations

import pytest
from tests import plain_english
from tests.plain_english import findings


@pytest.mark.parametrize(
    ("file", "text", "line", "phrase"),
    [
        ("docs/a.md", "One line.\n\nThe run\nis over now.\n", 3, "is over"),
        ("docs/a.md", "| a | b |\n|---|---|\n| x | What nobody saw |\n", 3, "nobody"),
        ("docs/a.md", "# Title\n\n## What it found\n", 3, "# What it found"),
        ("k8s/a.yaml", "kind: Pod\n# The volume is\n# gone with it.\n", 2, "is gone"),
        ("k8s/a.yaml", "image: kafka  # the broker refuses others\n", 1, "refuses"),
        ("include/a.j2", "<p>{{ x }} is told</p>\n", 1, "told"),
        ("include/a.py", 'x = f"topic {y} is "\\\n    "gone"\n', 1, "is gone"),
        ("include/a.py", 'raise NotReady("the pod tells of nothing")\n', 1, "tells"),
        ("include/a.py", '"""A.\n"""\n\ndef f():\n    """It is over."""\n', 5, "is over"),
        ("include/a.py", '"""Whether it runs."""\n', 1, "Whether"),
        ("include/a.py", '"""What runs in a pod."""\n', 1, "What runs in a pod"),
    ],
)
def test_a_planted_phrase_is_found(file: str, text: str, line: int, phrase: str) -> None:
    """The finding names file, first line of the text, phrase and better words."""
    found = list(findings(file, text))

    assert any(each.startswith(f"{file}:{line}: {phrase!r}: ") for each in found), found


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("docs/a.md", "The lag is over 100. Does it pay? What does it cost?\n"),
        ("docs/a.md", 'KEDA logs "the topic is gone" and `what is told`.\n\n```\nis over\n```\n'),
        ("k8s/a.yaml", "gone: is over\n"),
        ("include/a.py", '"""Say ``is over`` and "is told"."""\ntold = "gone"\n# nobody\n'),
    ],
)
def test_code_and_quotes_are_left_out(file: str, text: str) -> None:
    """Prose, docstrings, messages and manifests are read; a question may start with What."""
    assert list(findings(file, text)) == []


def test_an_exception_covers_its_text_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception that matches nothing is a finding, so that the list stays short."""
    exception = {"file": "docs/a.md", "block": "^Quoted", "reason": "a quotation"}
    monkeypatch.setitem(plain_english.LIST, "allowed", [exception])

    assert list(findings("docs/a.md", "Quoted: it is over.\n")) == []
    [found] = findings("docs/b.md", "Quoted: it is over.\n")
    assert "'is over'" in found
    [unused] = findings("docs/a.md", "Plain text.\n")
    assert "no text matches" in unused
