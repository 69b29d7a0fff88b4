"""One thing worth knowing of a policy: a stable code, where it is written, and what happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lagbench.core.object_schema import value_at
from lagbench.core.policy.admission.api_server import Admission

Level = Literal["refused", "broken", "warning", "note"]
"""refused: never stored. broken: stored, but KEDA's operator cannot run it, or it cannot do what
it is for. warning: it does something else than it says. note: worth knowing.
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """A stable ``code``, where it is written, what happens, and what to write instead."""

    level: Level
    code: str
    field: str
    value: str
    happens: str
    instead: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the finding for JSON."""
        return asdict(self)


LOGIN_PARAMETERS = frozenset(
    {
        *("username", "password", "ca", "cert", "key", "keyPassword", "scopes", "keytab", "realm"),
        *("oauthTokenEndpointUri", "oauthExtensions", "kerberosConfig", "kerberosServiceName"),
        *("accessToken", "caCert", "tlsClientCert", "tlsClientKey", "bearerToken", "token"),
        *("customAuthHeader", "customAuthValue", "apiKey", "clientID", "clientSecret"),
    }
)
"""Parameters that hold, or may hold, a secret: they are never shown."""


NOT_SHOWN = "(not shown)"


def is_login(field: str) -> bool:
    """Return whether a field's parameter may hold a secret."""
    return field.rpartition(".")[2].removesuffix("FromEnv") in LOGIN_PARAMETERS


def shown(value: object, field: str = "") -> str:
    """Return a value as a person wrote it, shortened; never a login, nor what may hold one."""
    if is_login(field):
        return NOT_SHOWN
    if isinstance(value, Mapping):
        return f"{{{', '.join(map(str, value))}}}"
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def refusal_findings(manifest: Mapping[str, Any], answer: Admission) -> tuple[Finding, ...]:
    """Return one finding for each reason of a refusal; none when it was accepted."""
    return tuple(
        Finding(
            "refused",
            refusal.code,
            refusal.field,
            shown(value_at(manifest, refusal.field), refusal.field),
            refusal.text,
            "in quotes" if is_login(refusal.field) and refusal.instead else refusal.instead,
        )
        for refusal in answer.refusals
    )
