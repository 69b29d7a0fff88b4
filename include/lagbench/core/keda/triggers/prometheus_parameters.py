"""The ``prometheus`` trigger: the one value of a PromQL query, and the login to its server."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from lagbench.core.keda.triggers.promql import (
    KNOWN_FORMS,
    gives_one_series,
    parse_lag_query,
    parse_load_query,
    query_for_run,
)
from lagbench.core.keda.triggers.trigger_parameters import (
    HIDDEN,
    Given,
    NotSupported,
    Remark,
    RunSources,
    SampledLag,
    Source,
    TriggerParameters,
    TriggerSource,
    TriggerType,
    metadata_keys,
    read_values,
)
from lagbench.core.kubernetes_values import metric_milli
from lagbench.errors import WrongInput

_Text = Annotated[str, Given()]

_Flag = Annotated[bool, Given()]

_Pairs = Annotated[Mapping[str, str], Given()]

_MODES = ("apiKey", "basic", "tls", "bearer", "custom", "oauth")

_BOTH: tuple[Source, ...] = ("metadata", "auth")

# What each mode needs; of names with | one is enough.
_NEEDED = {
    "bearer": ("bearerToken|token",),
    "basic": ("username",),
    "tls": ("cert", "key"),
    "oauth": ("oauthTokenURI", "clientID"),
    "custom": ("customAuthHeader", "customAuthValue"),
    "apiKey": ("apiKey",),
}

# KEDA reads them there, too; the bench has no use for them.
_READ_BESIDE = "identityOwner authModes authMode awsRegion apiKey method keyParamName"


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


class PrometheusTrigger(TriggerParameters):
    """Parameters of one prometheus trigger; ``timeout_seconds`` 0: the operator's three seconds."""

    server_address: _Text
    query: _Text
    threshold: Annotated[float, Given()]
    activation_threshold: Annotated[float, Given()] = 0.0
    ignore_null_values: _Flag = True
    unsafe_ssl: _Flag = False
    timeout_seconds: Annotated[float, Given(name="timeout", is_duration=True)] = 0.0
    namespace: _Text = ""
    query_parameters: _Pairs = Field(default_factory=dict)
    custom_headers: _Pairs = Field(default_factory=dict, repr=False)
    login: PrometheusLogin = PrometheusLogin()

    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA requests this trigger's metric."""
        return f"s{trigger_index}-prometheus"

    @property
    def target_milli(self) -> int:
        """Return the threshold in thousandths, rounded as a metric is."""
        return metric_milli(self.threshold)

    @property
    def counts_lag(self) -> bool:
        """Return whether the query is the total lag of a group."""
        return parse_lag_query(self.query) is not None

    def reading(self, value: float) -> tuple[float, bool]:
        """Return the metric and whether the trigger is active."""
        return value, value > self.activation_threshold


def parse_prometheus_trigger(source: TriggerSource) -> PrometheusTrigger:
    """Return the trigger's parameters.

    :raises TriggerRefused: KEDA's operator rejects a parameter.
    """
    written, _ = source.find("authModes", _BOTH) or source.find("authMode", _BOTH) or ("", "")
    modes = tuple(piece.strip() for piece in written.split(",")) if written else ()
    if not set(modes) <= set(_MODES) or len({"bearer", "basic", "oauth"} & set(modes)) > 1:
        raise source.refused(
            "authModes", f"of {', '.join(_MODES)}, and one of bearer, basic and oauth"
        )
    secrets = {name: text.strip() for name, text in (source.auth or {}).items()}
    for mode in _NEEDED if source.auth is not None else ():
        for names in _NEEDED[mode] if mode in modes else ():
            if not any(secrets.get(name) for name in names.split("|")):
                raise source.refused(names.split("|")[0], f"required by authModes {mode}")
    values, problems = read_values(PrometheusTrigger, source)
    if problems:
        raise source.refused(*problems[0])
    name, value = _header(modes, secrets)
    login = PrometheusLogin(
        modes=modes, header_name=name, header_value=SecretStr(value) if name else None
    )
    return PrometheusTrigger.model_validate({**values, "login": login})


def _beyond(trigger: PrometheusTrigger, source: TriggerSource) -> NotSupported | None:
    for parameter, is_there, allowed in (
        ("awsRegion", source.find("awsRegion", _BOTH) is not None, "leave it out"),
        ("authModes", bool({"tls", "oauth"} & {*trigger.login.modes}), "bearer, basic, custom"),
    ):
        if is_there:
            return source.beyond(parameter, source.metadata.get(parameter, HIDDEN), allowed)
    return None


def _header(modes: tuple[str, ...], secrets: Mapping[str, str]) -> tuple[str, str]:
    """Return the one header that KEDA sends: of several modes the first of these."""

    def secret(name: str) -> str:
        return secrets.get(name, "")

    if "bearer" in modes:
        return "Authorization", f"Bearer {secret('bearerToken') or secret('token')}"
    if "basic" in modes:
        both = f"{secret('username')}:{secret('password')}"
        return "Authorization", f"Basic {b64encode(both.encode()).decode()}"
    if "custom" in modes:
        return secret("customAuthHeader"), secret("customAuthValue")
    return "", ""


def _remarks(trigger: PrometheusTrigger, metadata: Mapping[str, str]) -> Iterator[Remark]:
    if trigger.ignore_null_values:
        yield Remark(
            "warning",
            "null-counts-as-zero",
            "ignoreNullValues",
            metadata.get("ignoreNullValues") or "(absent: true)",
            "an empty answer counts as 0: while the exporter is unreachable, or no series has "
            "these labels, it scales down to minReplicaCount although lag grows",
            'ignoreNullValues: "false", and a fallback',
        )
    if not gives_one_series(trigger.query):
        yield Remark(
            "warning",
            "many-series",
            "query",
            trigger.query,
            "KEDA takes one element: with a second series every poll fails (returned multiple "
            "elements), and nothing scales",
            "one aggregation without labels around it, such as sum(…)",
        )
    if "://" not in trigger.server_address:
        yield Remark(
            "broken",
            "server-address",
            "serverAddress",
            trigger.server_address,
            "no URL: every poll fails with an unsupported protocol scheme",
            f"http://{trigger.server_address}",
        )


def _for_run(metadata: Mapping[str, str], sources: RunSources) -> Mapping[str, str]:
    query = query_for_run(
        str(metadata.get("query") or ""), group=sources.group, topic=sources.topic
    )
    address = sources.prometheus or metadata.get("serverAddress") or ""
    return {**metadata, "serverAddress": address, "query": query}


def _sampled_lag(trigger: PrometheusTrigger, field: str) -> SampledLag:
    """Return the trigger as samples of lag; ``WrongInput`` for a query of something else."""
    if (load := parse_load_query(trigger.query)) is not None:
        return SampledLag(trigger.reading, load.backlog_seconds, load.rate_seconds)
    if not trigger.counts_lag:
        raise WrongInput(
            where="policy", field=f"{field}.query", value=trigger.query, allowed=KNOWN_FORMS
        )
    return SampledLag(trigger.reading)


PROMETHEUS = TriggerType(
    "prometheus",
    parse_prometheus_trigger,
    target_milli=lambda trigger: trigger.target_milli,
    read_parameters=metadata_keys(PrometheusTrigger) | set(_READ_BESIDE.split()),
    remarks=_remarks,
    beyond=_beyond,
    for_run=_for_run,
    sampled_lag=_sampled_lag,
)
