"""The rig's certificates and kubeconfigs: three authorities, a pair per server and client."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=2)  # a rig lives for minutes
_SERVER, _CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True, slots=True)
class Pair:
    """Paths of a certificate and its key, in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority that signs into its folder."""

    name: str
    folder: Path
    _certificate: x509.Certificate
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str, folder: Path) -> Authority:
        """Make an authority and write ``<name>.crt`` and ``<name>.key``."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        _write(folder / name, certificate, key)
        return cls(name, folder, certificate, key)

    @property
    def certificate(self) -> Path:
        """Return the path of the authority's own certificate."""
        return self.folder / f"{self.name}.crt"

    def issue(
        self,
        name: str,
        *,
        common_name: str,
        organization: str | None = None,
        hosts: Sequence[str] = (),
        is_client: bool = True,
    ) -> Pair:
        """Sign a pair: a server certificate when it has ``hosts``, a client's by default."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization is not None:
            parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        usages = ([_SERVER] if hosts else []) + ([_CLIENT] if is_client else [])
        builder = _builder(x509.Name(parts), self._certificate.subject, key).add_extension(
            x509.ExtendedKeyUsage(usages), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return _write(self.folder / name, builder.sign(self._key, hashes.SHA256()), key)


def write_key_pair(folder: Path, name: str) -> Pair:
    """Write the key pair that signs service accounts' tokens: private, and public as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public, private = folder / f"{name}.pub", folder / f"{name}.key"
    public.write_bytes(
        key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    _write_key(private, key)
    return Pair(public, private)


def write_kubeconfig(path: Path, *, server: str, authority: Path, client: Pair) -> Path:
    """Write a kubeconfig with one context, ``rig``."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "rig",
                "cluster": {"server": server, "certificate-authority": str(authority)},
            }
        ],
        "users": [
            {
                "name": "client",
                "user": {
                    "client-certificate": str(client.certificate),
                    "client-key": str(client.key),
                },
            }
        ],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "client"}}],
        "current-context": "rig",
    }
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    return path


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write(base: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pair = Pair(base.with_name(f"{base.name}.crt"), base.with_name(f"{base.name}.key"))
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_key(pair.key, key)
    return pair


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.touch(mode=0o600)
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
