"""The key store has the layout that Java reads (Java itself reads it in the integration test)."""

from __future__ import annotations

import hashlib
import struct

from lagbench.embedded.trust_store import key_store


def test_key_store_counts_and_guards_its_content() -> None:
    """Header with the number of certificates, SHA-1 over salt and content at the end."""
    store = key_store([b"first", b"second certificate"])

    assert struct.unpack(">III", store[:12]) == (0xFEEDFEED, 2, 2)
    assert b"first" in store
    salted = "changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store[:-20]
    assert hashlib.sha1(salted, usedforsecurity=False).digest() == store[-20:]
