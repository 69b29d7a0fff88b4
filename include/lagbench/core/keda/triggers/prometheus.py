"""The ``prometheus`` trigger: the one value of a PromQL query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NoReturn

from pydantic import Field

from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.keda.triggers.lag_query import KNOWN_FORMS, parse_lag_query, query_for_run
from lagbench.core.keda.triggers.parameters import ParameterReader, ParameterSources
from lagbench.core.keda.triggers.prometheus_login import (
    LOGIN_PARAMETERS,
    PrometheusLogin,
    login_problem,
    read_login,
)
from lagbench.core.keda.triggers.promql_series import gives_one_series
from lagbench.core.keda.triggers.trigger_type import (
    Remark,
    RunSources,
    SampledLag,
    TriggerParameters,
    TriggerSource,
    TriggerType,
)
from lagbench.core.kubernetes import metric_milli
from lagbench.errors import WrongInput

_ONLY = ("metadata",)
_READ = """
    serverAddress query queryParameters threshold activationThreshold namespace customHeaders
    ignoreNullValues unsafeSsl awsRegion timeout identityOwner authModes authMode
"""
_BEGIN = "error parsing prometheus metadata"


class PrometheusTrigger(TriggerParameters):
    """Parameters of one prometheus trigger; ``timeout_seconds`` 0: the operator's three seconds."""

    server_address: str
    query: str
    threshold: float
    activation_threshold: float = 0.0
    ignore_null_values: bool = True
    unsafe_ssl: bool = False
    timeout_seconds: float = 0.0
    namespace: str = ""
    query_parameters: Mapping[str, str] = Field(default_factory=dict)
    custom_headers: Mapping[str, str] = Field(default_factory=dict, repr=False)
    login: PrometheusLogin = PrometheusLogin()

    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA requests this trigger's metric."""
        return f"s{trigger_index}-prometheus"

    @property
    def target_milli(self) -> int:
        """Return the threshold in thousandths, rounded as a metric is."""
        return metric_milli(self.threshold)

    def reading(self, value: float) -> tuple[float, bool]:
        """Return the metric and whether the trigger is active."""
        return value, value > self.activation_threshold


def parse_prometheus_trigger(source: TriggerSource) -> PrometheusTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` with KEDA's message if rejected."""
    auth, is_auth_known = source.auth or {}, source.auth is not None
    reader = ParameterReader(ParameterSources(source.metadata, auth, source.environment))
    # In the order of KEDA's fields, which is that of its messages.
    login = read_login(reader)
    problem = login_problem(login, auth) if is_auth_known else None
    if problem is not None:
        reader.errors.append(problem)
    values = {
        "server_address": reader.required_text("serverAddress", order=_ONLY),
        "query": reader.required_text("query", order=_ONLY),
        "query_parameters": reader.mapping("queryParameters"),
        "threshold": reader.required_number("threshold"),
        "activation_threshold": reader.number("activationThreshold"),
        "namespace": reader.text("namespace"),
        "custom_headers": reader.mapping("customHeaders"),
        "ignore_null_values": reader.boolean("ignoreNullValues", default=True),
        "unsafe_ssl": reader.boolean("unsafeSsl"),
        "timeout_seconds": reader.seconds("timeout"),
    }
    if reader.errors:
        raise TriggerRefused(
            where=source.where,
            field=f"{source.field}.metadata",
            value=dict(source.metadata),
            keda_message=f"{_BEGIN}: {_BEGIN}: " + "\n".join(reader.errors),
        )
    if reader.text("awsRegion", order=("metadata", "auth")):
        _refuse(source, "awsRegion", "leave it out")
    for mode in ("tls", "oauth"):
        if mode in login.modes:
            _refuse(source, "authModes", "bearer, basic, custom")
    return PrometheusTrigger.model_validate({**values, "login": login})


def _refuse(source: TriggerSource, parameter: str, allowed: str) -> NoReturn:
    raise NotSupported(
        where=source.where,
        field=f"{source.field}.metadata.{parameter}",
        value=source.metadata.get(parameter, "(from the TriggerAuthentication)"),
        allowed=f"{allowed}: KEDA can do it, this bench's scaler cannot",
    )


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


def _lag_threshold(metadata: Mapping[str, str]) -> str | None:
    is_lag = parse_lag_query(str(metadata.get("query") or "")) is not None
    return "threshold" if is_lag else None


def _for_run(metadata: Mapping[str, str], sources: RunSources) -> Mapping[str, str]:
    query = query_for_run(
        str(metadata.get("query") or ""), group=sources.group, topic=sources.topic
    )
    address = sources.prometheus or metadata.get("serverAddress") or ""
    return {**metadata, "serverAddress": address, "query": query}


def _sampled_lag(trigger: PrometheusTrigger, field: str) -> SampledLag:
    """Return the trigger as samples of lag; ``WrongInput`` for a query of something else."""
    if parse_lag_query(trigger.query) is None:
        raise WrongInput(
            where="policy", field=f"{field}.query", value=trigger.query, allowed=KNOWN_FORMS
        )
    return SampledLag(trigger.reading)


PROMETHEUS = TriggerType(
    "prometheus",
    parse_prometheus_trigger,
    target_milli=lambda trigger: trigger.target_milli,
    read_parameters=frozenset(_READ.split()) | LOGIN_PARAMETERS,
    remarks=_remarks,
    lag_threshold=_lag_threshold,
    for_run=_for_run,
    sampled_lag=_sampled_lag,
)
