"""Headers ``Warning`` of Kubernetes 1.34, and of several warnings."""

from __future__ import annotations

from lagbench.adapters.kube.client.warning_headers import warnings_of
from lagbench.project import PROJECT_ROOT

RECORDED = PROJECT_ROOT / "tests/data/refused_pods/warning_header.txt"


def test_a_text_has_its_quotes() -> None:
    """The API server escapes them in the header."""
    (text,) = warnings_of([RECORDED.read_text().strip()])

    assert ' "restricted:latest": ' in text
    assert text.endswith(' "RuntimeDefault" or "Localhost")')


def test_every_warning_is_read() -> None:
    """They may come in headers of their own, or joined by a proxy."""
    assert warnings_of(['299 - "a"', r'299 - "b \\ \"c\"", 299 - "d"']) == ("a", 'b \\ "c"', "d")
    assert warnings_of([]) == ()
