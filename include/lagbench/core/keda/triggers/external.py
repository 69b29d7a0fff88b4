"""The ``external`` and ``external-push`` triggers: a gRPC server that reports specs and values."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, SecretStr

from lagbench.core.keda.refusals import TriggerRefused
from lagbench.core.keda.triggers.parameters import ParameterReader, ParameterSources
from lagbench.core.keda.triggers.trigger_type import TriggerParameters, TriggerSource, TriggerType

_FROM_ENV = "FromEnv"


class ExternalTrigger(TriggerParameters):
    """Parameters of one external trigger; the names of its metrics are known to the server only.

    ``metadata`` is what is sent with every call: a ``...FromEnv`` key carries the variable's value,
    which may be a secret, so it has no repr.
    """

    is_push: bool
    scaler_address: str
    enable_tls: bool = False
    unsafe_ssl: bool = False
    ca_cert: SecretStr | None = None  # PEM text, as the secret holds it
    tls_client_cert: SecretStr | None = None
    tls_client_key: SecretStr | None = None
    metadata: Mapping[str, str] = Field(default_factory=dict, repr=False)

    @property
    def uses_tls(self) -> bool:
        """Return whether the connection is encrypted: asked for, or a certificate is given."""
        has_pair = bool(self.tls_client_cert) and bool(self.tls_client_key)
        return self.enable_tls or has_pair or bool(self.ca_cert)

    @property
    def connection_key(self) -> tuple[str, bool, bool, str, str, str]:
        """Return what two triggers must have in common to share one connection."""
        return (
            self.scaler_address,
            self.enable_tls,
            self.unsafe_ssl,
            _revealed(self.ca_cert),
            _revealed(self.tls_client_cert),
            _revealed(self.tls_client_key),
        )

    def metric_name(self, trigger_index: int) -> str:
        """Return what the names of all this trigger's metrics begin with."""
        return f"s{trigger_index}-"


def parse_external_trigger(
    metadata: Mapping[str, str],
    *,
    is_push: bool,
    where: str = "trigger",
    field: str = "metadata",
    auth: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> ExternalTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` with KEDA's message if rejected."""
    environment = {} if environment is None else environment
    reader = ParameterReader(ParameterSources(metadata, auth or {}, environment))
    address = reader.required_text("scalerAddress", order=("metadata",))
    enable_tls, unsafe_ssl = reader.boolean("enableTLS"), reader.boolean("unsafeSsl")
    if reader.errors:
        begin = "error parsing external scaler metadata"
        raise TriggerRefused(
            where=where,
            field=field,
            value=dict(metadata),
            keda_message=f"{begin}: {begin}: " + "\n".join(reader.errors),
        )
    return ExternalTrigger(
        is_push=is_push,
        scaler_address=address,
        enable_tls=enable_tls,
        unsafe_ssl=unsafe_ssl,
        ca_cert=reader.secret("caCert"),
        tls_client_cert=reader.secret("tlsClientCert"),
        tls_client_key=reader.secret("tlsClientKey"),
        metadata=_sent(metadata, environment),
    )


def _sent(metadata: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata as the server gets it; an unset or empty variable is left out."""
    sent = {
        key: environment.get(value, "") if key.endswith(_FROM_ENV) else value
        for key, value in metadata.items()
    }
    return {key: value for key, value in sent.items() if value or not key.endswith(_FROM_ENV)}


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def _type_of(name: str, *, is_push: bool) -> TriggerType[ExternalTrigger]:
    def parse(source: TriggerSource) -> ExternalTrigger:
        return parse_external_trigger(
            source.metadata,
            is_push=is_push,
            where=source.where,
            field=f"{source.field}.metadata",
            auth=source.auth,
            environment=source.environment,
        )

    return TriggerType(name, parse, outage="metric names")


EXTERNAL = _type_of("external", is_push=False)
EXTERNAL_PUSH = _type_of("external-push", is_push=True)
