"""The headers with which a browser guards the pages of the bench."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping

# A report contains its scripts and styles and needs nothing from elsewhere. A run folder may come
# from a stranger: in the sandbox it has an origin of its own, without the reader's session.
OF_FILES: Mapping[str, str] = {
    "Content-Security-Policy": (
        "sandbox allow-scripts allow-downloads; "
        "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
        "img-src data: blob:; font-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def of_page(scripts: Iterable[str], styles: Iterable[str]) -> Mapping[str, str]:
    """Return the headers of a page that runs these inline scripts and styles and no others.

    It may ask this server for data, and no other one.
    """
    policy = (
        f"default-src 'none'; script-src {_digests(scripts)}; style-src {_digests(styles)}; "
        "img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'self'"
    )
    return {**OF_FILES, "Content-Security-Policy": policy, "Cache-Control": "no-store"}


def _digests(texts: Iterable[str]) -> str:
    found = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts]
    return " ".join(f"'sha256-{digest}'" for digest in found) or "'none'"
