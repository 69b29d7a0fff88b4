"""TLS and SASL parameters of the ``kafka`` trigger, checked in KEDA's order."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from lagbench.core.trigger_parameters import ParameterReader

_SASL_TYPES = ("none", "plaintext", "scram_sha256", "scram_sha512", "oauthbearer", "gssapi")
_PASSWORD_TYPES = frozenset({"plaintext", "scram_sha256", "scram_sha512"})


class KafkaSecurity(BaseModel):
    """How the trigger's client proves who it is; secrets come from a TriggerAuthentication."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_tls: bool = False
    skips_verification: bool = False
    ca: str = ""
    cert: str = ""
    key: str = ""
    key_password: str = ""
    sasl: str = "none"
    username: str = ""
    password: str = ""
    token_provider: str = "bearer"  # noqa: S105 - the name of a kind of provider
    scopes: tuple[str, ...] = ()
    token_endpoint: str = ""
    extensions: str = ""
    keytab: str = ""
    ccache_name: str = ""
    realm: str = ""
    kerberos_config: str = ""
    kerberos_service_name: str = "kafka"
    kerberos_disable_fast: bool = False
    aws_region: str = ""


def read_security(reader: ParameterReader) -> KafkaSecurity:
    """Return the security parameters as written; the reader gathers what cannot be read."""
    auth, both = ("auth",), ("metadata", "auth")
    scopes = reader.text("scopes", order=auth)
    return KafkaSecurity(
        is_tls=reader.choice("tls", ("enable", "disable"), order=both, default="disable")
        == "enable",
        skips_verification=reader.boolean("unsafeSsl"),
        ca=reader.text("ca", order=auth),
        cert=reader.text("cert", order=auth),
        key=reader.text("key", order=auth),
        key_password=reader.text("keyPassword", order=auth),
        sasl=reader.choice("sasl", _SASL_TYPES, order=both, default="none"),
        username=reader.text("username", order=auth),
        password=reader.text("password", order=auth),
        token_provider=reader.choice(
            "saslTokenProvider", ("bearer", "aws_msk_iam"), order=both, default="bearer"
        ),
        scopes=tuple(scope.strip() for scope in scopes.split(",") if scope.strip()),
        token_endpoint=reader.text("oauthTokenEndpointUri", order=auth),
        extensions=reader.text("oauthExtensions", order=auth),
        keytab=reader.text("keytab", order=auth),
        ccache_name=reader.text("ccacheName", order=auth),
        realm=reader.text("realm", order=auth),
        kerberos_config=reader.text("kerberosConfig", order=auth),
        kerberos_service_name=reader.text("kerberosServiceName", order=auth, default="kafka"),
        kerberos_disable_fast=reader.boolean("kerberosDisableFAST", order=auth),
        aws_region=reader.text("awsRegion"),
    )


def check_security(security: KafkaSecurity, auth: Mapping[str, str]) -> str | None:
    """Return the first broken rule, TLS before SASL; None when all hold."""
    if security.is_tls and security.cert and not security.key:
        return "key must be provided with cert"
    if security.is_tls and security.key and not security.cert:
        return "cert must be provided with key"
    return _sasl_problem(security, auth)


def _sasl_problem(security: KafkaSecurity, auth: Mapping[str, str]) -> str | None:
    if security.sasl in _PASSWORD_TYPES:
        return _missing_login(security)
    if security.sasl == "gssapi":
        return _kerberos_problem(security)
    if security.sasl != "oauthbearer":
        return None
    if security.token_provider == "aws_msk_iam":  # noqa: S105 - a provider's name
        return _aws_problem(security, auth)
    return _missing_login(security) or _bearer_problem(security)


def _missing_login(security: KafkaSecurity) -> str | None:
    if not security.username:
        return "no username given"
    return None if security.password else "no password given"


def _bearer_problem(security: KafkaSecurity) -> str | None:
    if not security.token_endpoint:
        return "no oauth token endpoint uri given"
    for extension in filter(None, security.extensions.split(",")):
        if extension.count("=") != 1:
            return "invalid OAuthBearer extension, must be of format key=value"
    return None


def _aws_problem(security: KafkaSecurity, auth: Mapping[str, str]) -> str | None:
    if not security.is_tls:
        return "TLS is required for MSK"
    if not security.aws_region:
        return "no awsRegion given"
    has_keys = auth.get("awsAccessKeyID") and auth.get("awsSecretAccessKey")
    return None if has_keys or auth.get("awsRoleArn") else "no AWS credentials given"


def _kerberos_problem(security: KafkaSecurity) -> str | None:
    if not security.username:
        return "no username given"
    proofs = [security.password, security.keytab, security.ccache_name]
    if sum(map(bool, proofs)) != 1:
        return "exactly one of 'password', 'keytab' or 'ccacheName' must be provided for GSSAPI"
    if not security.realm:
        return "no realm given"
    if not security.kerberos_config:
        return "no Kerberos configuration file (kerberosConfig) given"
    name = security.ccache_name
    if name and ("/" in name or name in {".", ".."}):
        return "ccacheName must be the name of a file, not a path"
    return None
