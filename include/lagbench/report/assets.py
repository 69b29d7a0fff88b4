"""The scripts and styles of a page: read from this package, to stand inside the page itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from importlib import resources

SCRIPTS = ("theme", "samples", "panels", "charts")
"""Files of ``scripts``: each adds to ``window.lagbench`` when it is read, in this order."""

STYLES = ("theme", "page", "charts", "print")
"""Files of ``styles``, in the order of the cascade."""


@cache
def scripts() -> str:
    """Return one classic script: uPlot with its licence, then ours."""
    licence = _read("vendor/uplot/LICENSE.txt").strip()
    library = _read("vendor/uplot/uPlot.iife.min.js").strip()
    ours = [_read(f"scripts/{name}.js").strip() for name in SCRIPTS]
    return "\n".join([f"/* uPlot:\n{licence}\n*/", library, *ours])


@cache
def styles() -> str:
    """Return one style sheet: uPlot's, then ours."""
    library = _read("vendor/uplot/uPlot.min.css").strip()
    return "\n".join([library, *(_read(f"styles/{name}.css").strip() for name in STYLES)])


def content_security_policy(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the policy of a page that may run and show nothing but these inline texts.

    A text is what stands between ``<script>`` and ``</script>``, to the byte.
    """
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(map(_source, scripts))}",
            f"style-src {' '.join(map(_source, styles))}",
            "img-src data: blob:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _read(path: str) -> str:
    return resources.files("lagbench.report").joinpath(path).read_text(encoding="utf-8")
