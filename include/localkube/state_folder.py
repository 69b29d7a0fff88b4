"""The state folder of a localkube: its single owner, and what clients know of it.

A kubeconfig is read once by many clients. With the same port, token and certificate at the next
start, such a client reconnects by itself, also after a crash.
"""

from __future__ import annotations

import base64
import fcntl
import json
import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import psutil
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from localkube.kube_objects import LocalkubeError

INFO_FILE = "localkube.json"
IDENTITY_FILE = "identity.json"
# After a restart, versions start this far above the last ones written, so that no client takes a
# new object for one that it knew before the restart.
_VERSION_GAP = 1_000_000
_CERTIFICATE_DAYS = 365
# A certificate that ends earlier than this after a start is replaced at that start.
_REMAINING = timedelta(days=30)
_TOKEN_BYTES = 32
_log = logging.getLogger(__name__)


def write_private(path: Path, content: bytes) -> None:
    """Write ``content`` to a file of mode 0600 and rename it into place."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    scratch.replace(path)


@contextmanager
def owned(folder: Path) -> Iterator[None]:
    """Own ``folder`` during the block; the kernel ends the ownership with the process.

    :raises LocalkubeError: another live localkube owns it.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / "localkube.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = "it is starting or stopping"
            try:
                info = json.loads((folder / INFO_FILE).read_text())
                owner = f"pid {info.get('pid')}, port {info.get('port')}"
            except (OSError, ValueError):
                pass
            raise LocalkubeError(
                f"another localkube owns {folder} ({owner}); stop it first, or give another "
                "--state-dir"
            ) from error
        yield


def announce(folder: Path, *, port: int) -> None:
    """Write how to reach this process: pid, port and the process's start time."""
    info = {"pid": os.getpid(), "port": port, "started_at": psutil.Process().create_time()}
    write_private(folder / INFO_FILE, json.dumps(info).encode())


def next_first_version(folder: Path) -> int:
    """Return the first resourceVersion, above those of every earlier localkube in ``folder``."""
    file = folder / "resource-version"
    try:
        version = int(file.read_text()) + _VERSION_GAP
    except (OSError, ValueError):
        version = 1
    write_private(file, str(version).encode())
    return version


@dataclass(frozen=True, slots=True)
class Identity:
    """How clients reach and trust a localkube; ``port`` 0 has not been chosen yet."""

    port: int
    token: str
    certificate: str
    """PEM; it is its own authority."""
    private_key: str

    @classmethod
    def kept(cls, folder: Path) -> Identity:
        """Return the identity of the last start in ``folder``; a new one without a port otherwise.

        New is also what replaces an unreadable file, a certificate that ends within 30 days, and
        one of an earlier version, which another authority signed.
        """
        file = folder / IDENTITY_FILE
        try:
            kept = cls(**json.loads(file.read_bytes()))
            found = x509.load_pem_x509_certificate(kept.certificate.encode())
            is_lasting = found.not_valid_after_utc - datetime.now(UTC) >= _REMAINING
            if is_lasting and found.issuer == found.subject and 0 < kept.port <= 65_535:
                return kept
            _log.warning("the certificate until %s is replaced", found.not_valid_after_utc)
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, AttributeError) as error:
            _log.warning("%s cannot be read, a new identity replaces it: %s", file, error)
        return cls._new()

    def keep(self, folder: Path) -> None:
        """Write the identity for the next start, readable only by its owner."""
        write_private(folder / IDENTITY_FILE, json.dumps(asdict(self)).encode())

    @classmethod
    def _new(cls) -> Identity:
        """Return a token and a fresh certificate for 127.0.0.1 and localhost.

        kubectl sends a bearer token only over TLS, so the API uses TLS even on loopback.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localkube")])
        names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=_CERTIFICATE_DAYS))
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
            )
            .sign(key, hashes.SHA256())
        )
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        private_key = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
        return cls(
            port=0,
            token=secrets.token_urlsafe(_TOKEN_BYTES),
            certificate=certificate.public_bytes(pem).decode(),
            private_key=private_key.decode(),
        )


def write_kubeconfig(path: Path, identity: Identity, context: str) -> None:
    """Write the kubeconfig for clients, with one context, readable only by its owner."""
    authority = base64.b64encode(identity.certificate.encode()).decode()
    cluster = {
        "server": f"https://127.0.0.1:{identity.port}",
        "certificate-authority-data": authority,
    }
    place = {"cluster": context, "user": context, "namespace": "default"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "clusters": [{"name": context, "cluster": cluster}],
        "users": [{"name": context, "user": {"token": identity.token}}],
        "contexts": [{"name": context, "context": place}],
    }
    write_private(path, yaml.safe_dump(document, sort_keys=False).encode())
