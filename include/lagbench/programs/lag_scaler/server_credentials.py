"""TLS of the gRPC server, from files: the key never passes through a flag or a variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from lagbench.errors import NotReady
from lagbench.programs.lag_scaler.options import ScalerOptions

_Stamp = tuple[int, ...]


def server_credentials(options: ScalerOptions) -> Any | None:
    """Return the credentials, with mutual TLS where a client CA is given; None for plaintext.

    New files (a renewed certificate) are used from the next handshake on.

    :raises NotReady: a file cannot be read.
    """
    if options.tls_cert is None or options.tls_key is None:
        return None
    files = _TlsFiles(options.tls_cert, options.tls_key, options.client_ca)
    return grpc.dynamic_ssl_server_credentials(
        files.read(), files.renewed, require_client_authentication=options.client_ca is not None
    )


class _TlsFiles:
    def __init__(self, cert: Path, key: Path, client_ca: Path | None) -> None:
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._seen: _Stamp = ()

    def read(self) -> Any:
        try:
            stamp = self._stamp()
            authority = None if self._client_ca is None else self._client_ca.read_bytes()
            pair = (self._key.read_bytes(), self._cert.read_bytes())
        except OSError as error:
            raise NotReady(f"cannot read {error.filename}: {error.strerror}") from error
        self._seen = stamp
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=authority)

    def renewed(self) -> Any | None:
        """Return what changed since the last reading; None lets the server keep what it has."""
        try:
            return None if self._stamp() == self._seen else self.read()
        except (OSError, NotReady):  # between two files of a renewal
            return None

    def _stamp(self) -> _Stamp:
        files = (self._cert, self._key, self._client_ca)
        return tuple(path.stat().st_mtime_ns for path in files if path is not None)
