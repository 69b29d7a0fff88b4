"""TLS and SASL parameters of the ``kafka`` trigger, checked in KEDA's order."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, SecretStr

from lagbench.core.keda.triggers.parameters import ParameterReader

_SASL_TYPES = ("none", "plaintext", "scram_sha256", "scram_sha512", "oauthbearer", "gssapi")
_PASSWORD_TYPES = frozenset({"plaintext", "scram_sha256", "scram_sha512"})


class KafkaSecurity(BaseModel):
    """The login of the trigger's client; secrets come from a TriggerAuthentication."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    is_tls: bool = False
    skips_verification: bool = False
    ca: SecretStr | None = None  # PEM text, as the secret holds it
    cert: SecretStr | None = None
    key: SecretStr | None = None
    key_password: SecretStr | None = None
    sasl: str = "none"
    username: str = ""
    password: SecretStr | None = None
    token_provider: str = "bearer"  # noqa: S105 - the name of a kind of provider
    scopes: tuple[str, ...] = ()
    token_endpoint: str = ""
    extensions: str = ""
    keytab: SecretStr | None = None
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
        ca=reader.secret("ca"),
        cert=reader.secret("cert"),
        key=reader.secret("key"),
        key_password=reader.secret("keyPassword"),
        sasl=reader.choice("sasl", _SASL_TYPES, order=both, default="none"),
        username=reader.text("username", order=auth),
        password=reader.secret("password"),
        token_provider=reader.choice(
            "saslTokenProvider", ("bearer", "aws_msk_iam"), order=both, default="bearer"
        ),
        scopes=tuple(scope.strip() for scope in scopes.split(",") if scope.strip()),
        token_endpoint=reader.text("oauthTokenEndpointUri", order=auth),
        extensions=reader.text("oauthExtensions", order=auth),
        keytab=reader.secret("keytab"),
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
        problem = _aws_problem(security, auth)
    else:
        problem = _missing_login(security) or _bearer_problem(security)
    return problem and f"error parsing OAuth token provider configuration: {problem}"


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
        return "TLS is required for AWS MSK authentication"
    if not security.aws_region:
        return "no awsRegion given"
    has_keys = auth.get("awsAccessKeyID") and auth.get("awsSecretAccessKey")
    return None if has_keys or auth.get("awsRoleArn") else "no AWS credentials given"


def _kerberos_problem(security: KafkaSecurity) -> str | None:
    if not security.username:
        return "no username given"
    proofs = [security.password, security.keytab, security.ccache_name]
    if sum(map(bool, proofs)) != 1:
        return (
            "exactly one of 'password', 'keytab' or 'ccacheName' must be provided for "
            "GSSAPI authentication"
        )
    if not security.realm:
        return "no realm given"
    if not security.kerberos_config:
        return "no Kerberos configuration file (kerberosConfig) given"
    name = security.ccache_name
    if name and ("/" in name or name in {".", ".."}):
        return "ccacheName must be the name of a file, not a path"
    return None
