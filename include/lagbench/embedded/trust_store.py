"""Give Java the certificate authorities that this machine trusts.

A Java from a wheel has its own list, without a company's authority that the administrator added to
the system. Python has the system's list. Java reads it from a file in Sun's JKS format
(sun.security.provider.JavaKeyStore): a header, one entry per certificate, and a SHA-1 over a fixed
salt and the content. The SHA-1 guards against accidents only.
"""

from __future__ import annotations

import hashlib
import os
import ssl
import struct
from pathlib import Path

_MAGIC, _FORMAT_VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # noqa: S105 - Java's documented default; the file holds public data only
_DIGEST_SALT = b"Mighty Aphrodite"  # fixed by the format


def trusted_certificates() -> list[bytes]:
    """Return the DER form of the authorities that Python trusts by default."""
    return ssl.create_default_context().get_ca_certs(binary_form=True)


def key_store(certificates: list[bytes]) -> bytes:
    """Return a JKS key store that trusts ``certificates``."""
    parts = [struct.pack(">III", _MAGIC, _FORMAT_VERSION, len(certificates))]
    for number, certificate in enumerate(certificates):
        parts += [
            struct.pack(">I", _TRUSTED_CERTIFICATE),
            _short_text(f"ca-{number}"),
            struct.pack(">Q", 0),  # created at: not used for trust
            _short_text("X.509"),
            struct.pack(">I", len(certificate)),
            certificate,
        ]
    body = b"".join(parts)
    salted = _PASSWORD.encode("utf-16-be") + _DIGEST_SALT
    return body + hashlib.sha1(salted + body, usedforsecurity=False).digest()


def trust_options(folder: Path) -> list[str]:
    """Write the key store into ``folder`` and return the Java options that use it."""
    certificates = trusted_certificates()
    if not certificates:
        return []
    path = folder / f"trusted-{os.getpid()}.jks"
    path.write_bytes(key_store(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _short_text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">H", len(encoded)) + encoded
