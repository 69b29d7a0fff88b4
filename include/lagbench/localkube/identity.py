"""Keep what clients know of a localkube in its state folder: port, token, certificate.

A kubeconfig is read once by many clients. With the same identity at the next start, such a client
reconnects by itself, also after a crash.
"""

from __future__ import annotations

import logging
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from pydantic import BaseModel, Field, ValidationError

from lagbench.localkube.certificate import ServerCertificate, make_certificate
from lagbench.localkube.kubeconfig import write_private

IDENTITY_FILE = "identity.json"
# A certificate that ends earlier than this after a start is replaced at that start.
_REMAINING = timedelta(days=30)
_TOKEN_BYTES = 32

_log = logging.getLogger(__name__)


class Identity(BaseModel, frozen=True):
    """How clients reach and trust a localkube; ``port`` 0 has not been chosen yet."""

    port: int = Field(ge=0, le=65_535)
    token: str = Field(min_length=_TOKEN_BYTES)
    authority: str
    certificate: str
    private_key: str

    @property
    def server_certificate(self) -> ServerCertificate:
        """Return the three PEM texts as the server takes them."""
        return ServerCertificate(
            authority=self.authority.encode(),
            certificate=self.certificate.encode(),
            private_key=self.private_key.encode(),
        )


def kept_identity(folder: Path) -> Identity:
    """Return the identity of the last start in ``folder``; a new one without a port otherwise.

    New is also what replaces an unreadable file and a certificate that ends within 30 days.
    """
    file = folder / IDENTITY_FILE
    try:
        kept = Identity.model_validate_json(file.read_bytes())
        ends_at = x509.load_pem_x509_certificate(kept.certificate.encode()).not_valid_after_utc
    except FileNotFoundError:
        return _new_identity()
    except (OSError, ValidationError, ValueError) as error:
        _log.warning("%s cannot be read, a new identity replaces it: %s", file, error)
        return _new_identity()
    if ends_at - datetime.now(UTC) < _REMAINING:
        _log.warning("the certificate ends at %s, a new identity replaces it", ends_at)
        return _new_identity()
    return kept


def keep_identity(folder: Path, identity: Identity) -> None:
    """Write the identity for the next start, readable only by its owner."""
    write_private(folder / IDENTITY_FILE, identity.model_dump_json().encode())


def _new_identity() -> Identity:
    made = make_certificate()
    return Identity(
        port=0,
        token=secrets.token_urlsafe(_TOKEN_BYTES),
        authority=made.authority.decode(),
        certificate=made.certificate.decode(),
        private_key=made.private_key.decode(),
    )
