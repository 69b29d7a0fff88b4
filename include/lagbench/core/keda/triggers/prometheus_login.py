"""Parse the login of a prometheus trigger: KEDA's ``authModes`` and their secrets."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, SecretStr

from lagbench.core.keda.triggers.parameters import ParameterReader

_MODES = ("apiKey", "basic", "tls", "bearer", "custom", "oauth")
_ONE_OF = ("bearer", "basic", "oauth")
_BOTH = ("metadata", "auth")
# The only ones that KEDA reads in the metadata as well; it sends Prometheus no API key, though.
LOGIN_PARAMETERS = frozenset({"apiKey", "method", "keyParamName"})


class PrometheusLogin(BaseModel):
    """The modes in their order, and the header that the secrets make."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    modes: tuple[str, ...] = ()
    header_name: str = ""
    header_value: SecretStr | None = None

    @property
    def headers(self) -> dict[str, str]:
        """Return what is sent with each request, in plain text."""
        if self.header_value is None:
            return {}
        return {self.header_name: self.header_value.get_secret_value()}


def read_login(reader: ParameterReader) -> PrometheusLogin:
    """Return the login as written; the reader gathers modes that KEDA does not have."""
    modes = reader.choices(("authModes", "authMode"), _MODES, order=_BOTH, one_of=_ONE_OF)
    name, value = _header(modes, reader)
    return PrometheusLogin(
        modes=modes, header_name=name, header_value=SecretStr(value) if name else None
    )


def _header(modes: tuple[str, ...], reader: ParameterReader) -> tuple[str, str]:
    """Return the one header that KEDA sends: of several modes the first of these."""

    def secret(name: str) -> str:
        return reader.text(name, order=("auth",))

    if "bearer" in modes:
        return "Authorization", f"Bearer {secret('bearerToken') or secret('token')}"
    if "basic" in modes:
        both = f"{secret('username')}:{secret('password')}"
        return "Authorization", f"Basic {b64encode(both.encode()).decode()}"
    if "custom" in modes:
        return secret("customAuthHeader"), secret("customAuthValue")
    return "", ""


def login_problem(login: PrometheusLogin, auth: Mapping[str, str]) -> str | None:
    """Return the first secret that is missing, in KEDA's order and words."""

    def state(name: str) -> str:
        return f"{name}={'<present>' if auth.get(name, '').strip() else '<empty>'}"

    def lacks(*names: str) -> bool:
        return not any(auth.get(name, "").strip() for name in names)

    custom = ("customAuthHeader", "customAuthValue")
    rules = (
        (
            "bearer",
            lacks("bearerToken", "token"),
            "bearer token=<empty> is required when bearer auth is enabled",
        ),
        (
            "basic",
            lacks("username"),
            "username=<empty> is required when basic auth is enabled",
        ),
        (
            "tls",
            lacks("cert") or lacks("key"),
            f"{state('cert')} and {state('key')} are required when tls auth is enabled",
        ),
        (
            "oauth",
            lacks("oauthTokenURI") or lacks("clientID"),
            f"{state('oauthTokenURI')} and {state('clientID')} are required when oauth is enabled",
        ),
        (
            "custom",
            lacks(custom[0]) or lacks(custom[1]),
            f"{state(custom[0])} and {state(custom[1])} are required when custom auth is enabled",
        ),
        ("apiKey", lacks("apiKey"), "apiKey is required when apiKey auth is enabled"),
    )
    broken = (text for mode, is_broken, text in rules if mode in login.modes and is_broken)
    return next(broken, None)
