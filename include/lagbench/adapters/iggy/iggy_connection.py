"""Define the connection to one Iggy server: address, credentials and TLS, checked once."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from lagbench.core.lag_scaler import ALLOWED_ADDRESS, shown_address, split_iggy_address
from lagbench.errors import WrongInput

_LONGEST_BYTES = 255  # the protocol counts a name, a password and a token in one byte
_WHERE = "Iggy connection"


class IggyConnection(BaseModel):
    """Names a server and who logs in; equal connections can share one socket.

    Either ``username`` and ``password`` or ``access_token``. The server's certificate is checked
    against ``tls_ca_file`` or ``tls_ca_pem`` (the system's authorities if neither is given) and
    against the address or, if given, ``tls_server_name``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    server_address: Annotated[str, Field(min_length=1)]
    username: str = ""
    password: SecretStr | None = None
    access_token: SecretStr | None = None
    is_tls: bool = False
    tls_ca_file: str = ""
    tls_ca_pem: str = Field(default="", repr=False)
    tls_server_name: str = ""

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        """Reject values that no server accepts; the reason never contains a secret."""
        split_address(self.server_address)
        has_user, has_token = bool(self.username), _is_given(self.access_token)
        if has_token == (has_user or _is_given(self.password)):
            raise _wrong(
                "credentials",
                "both kinds" if has_token else "none",
                "either username and password, or accessToken",
            )
        if not has_token and not (has_user and _is_given(self.password)):
            missing = "password" if has_user else "username"
            raise _wrong(missing, "", "username and password come together")
        for field, text in (
            ("username", self.username),
            ("password", _shown(self.password)),
            ("accessToken", _shown(self.access_token)),
        ):
            size_bytes = len(text.encode())
            if size_bytes > _LONGEST_BYTES:
                raise _wrong(field, f"{size_bytes} bytes", f"at most {_LONGEST_BYTES} bytes")
        if not self.is_tls and (self.tls_ca_file or self.tls_ca_pem or self.tls_server_name):
            raise _wrong("tls", "disable", "enable, when a CA or a server name is given")
        return self

    @property
    def address(self) -> tuple[str, int]:
        """Return host and port."""
        return split_address(self.server_address)


def split_address(text: str) -> tuple[str, int]:
    """Return (host, port) of ``host``, ``host:port`` or ``[v6]:port``."""
    found = split_iggy_address(text)
    if found is None:
        raise _wrong("serverAddress", shown_address(text), ALLOWED_ADDRESS)
    return found


def _is_given(secret: SecretStr | None) -> bool:
    return bool(_shown(secret))


def _shown(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def _wrong(field: str, value: str, allowed: str) -> WrongInput:
    return WrongInput(where=_WHERE, field=field, value=value, allowed=allowed)
