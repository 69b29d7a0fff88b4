"""The ``kafka`` trigger of a ScaledObject: its parameters, KEDA's rules for them, and remarks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict

from lag_scaler.keda_values import normalize_metric_name, parse_partition_limitation
from lagbench.core.keda.triggers.trigger_authentication import is_unknown
from lagbench.core.keda.triggers.trigger_parameters import (
    AuthText,
    EnvText,
    Given,
    NotSupported,
    Remark,
    RunSources,
    Secret,
    TriggerParameters,
    TriggerSource,
    TriggerType,
    metadata_keys,
    read_values,
)

KAFKA_DEFAULT_LAG_THRESHOLD = 10
"""KEDA's default of ``lagThreshold``, in records for each replica."""

OffsetResetPolicy = Literal["latest", "earliest"]

_Number = Annotated[int, Given()]

_Flag = Annotated[bool, Given()]

_Text = Annotated[str, Given()]

# Versions before 1.0 have four numbers and begin with 0.
_KAFKA_VERSION = re.compile(r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+")

_PASSWORD_SASL = ("plaintext", "scram_sha256", "scram_sha512")

_SASL = ("none", *_PASSWORD_SASL, "oauthbearer", "gssapi")

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

_HOST = re.compile(r"[A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+(?:%\w+)?\]")

_HIGHEST_PORT, _DEFAULT_PORT = 65_535, 9092


class KafkaSecurity(BaseModel):
    """The login of the trigger's client; secrets come from a TriggerAuthentication."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tls: Annotated[Literal["enable", "disable"], Given(("metadata", "auth"))] = "disable"
    skips_verification: Annotated[bool, Given(name="unsafeSsl")] = False
    ca: Secret = None  # PEM text, as the secret holds it
    cert: Secret = None
    key: Secret = None
    key_password: Secret = None
    sasl: Annotated[str, Given(("metadata", "auth"), allowed=_SASL)] = "none"
    username: AuthText = ""
    password: Secret = None
    token_provider: Annotated[
        Literal["bearer", "aws_msk_iam"], Given(("metadata", "auth"), "saslTokenProvider")
    ] = "bearer"  # noqa: S105 - the name of a kind of provider
    scopes: Annotated[tuple[str, ...], Given(("auth",))] = ()
    token_endpoint: Annotated[str, Given(("auth",), "oauthTokenEndpointUri")] = ""
    extensions: Annotated[str, Given(("auth",), "oauthExtensions")] = ""
    keytab: Secret = None
    ccache_name: AuthText = ""
    realm: AuthText = ""
    kerberos_config: AuthText = ""
    kerberos_disable_fast: Annotated[bool, Given(("auth",), "kerberosDisableFAST")] = False
    aws_region: _Text = ""

    @property
    def is_tls(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.tls == "enable"


class KafkaTrigger(TriggerParameters):
    """Parameters of one kafka trigger after KEDA's parsing; ``topic`` empty means all topics."""

    bootstrap_servers: Annotated[tuple[str, ...], Given(("metadata", "env"))]
    consumer_group: EnvText
    topic: EnvText = ""
    partition_limitation: tuple[int, ...] | None = None
    lag_threshold: _Number = KAFKA_DEFAULT_LAG_THRESHOLD
    activation_lag_threshold: _Number = 0
    offset_reset_policy: Annotated[OffsetResetPolicy, Given()] = "latest"
    allow_idle_consumers: _Flag = False
    exclude_persistent_lag: _Flag = False
    scale_to_zero_on_invalid_offset: _Flag = False
    limit_to_partitions_with_lag: _Flag = False
    ensure_even_distribution_of_partitions: _Flag = False
    full_metadata: _Flag = True
    version: _Text = "1.0.0"
    security: KafkaSecurity = KafkaSecurity()

    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA requests this trigger's metric."""
        name = f"kafka-{self.topic}" if self.topic else f"kafka-{self.consumer_group}-topics"
        return f"s{trigger_index}-{normalize_metric_name(name)}"

    @property
    def target_milli(self) -> int:
        """Return lagThreshold in thousandths: the HPA's target per replica."""
        return self.lag_threshold * 1000

    def keeps_partition(self, partition: int) -> bool:
        """Return whether partitionLimitation leaves this partition in."""
        return self.partition_limitation is None or partition in self.partition_limitation


def parse_kafka_trigger(source: TriggerSource) -> KafkaTrigger:
    """Return the trigger's parameters.

    While ``source.auth`` is None the rules on TLS and SASL wait.

    :raises TriggerRefused: KEDA's operator rejects a parameter.
    """
    values, problems = read_values(KafkaTrigger, source)
    found, unread = read_values(KafkaSecurity, source)
    security = KafkaSecurity.model_validate(found)
    problems += unread
    limitation = source.metadata.get("partitionLimitation") or ""
    if not problems:
        trigger = KafkaTrigger.model_validate({**values, "security": security})
        problems += _broken_rules(trigger, limitation)
        if source.auth is not None:
            problems += security_problems(security, source.auth)
        if not problems and not _KAFKA_VERSION.fullmatch(trigger.version):
            problems.append(("version", f'"{trigger.version}" is not a version of Kafka'))
    if problems:
        raise source.refused(*problems[0])
    kept = parse_partition_limitation(limitation) if trigger.topic and limitation.strip() else None
    return trigger.model_copy(update={"partition_limitation": kept})


def _beyond(trigger: KafkaTrigger, source: TriggerSource) -> NotSupported | None:
    known = ("none", *_PASSWORD_SASL)
    if trigger.security.sasl in known:
        return None
    return source.beyond("sasl", trigger.security.sasl, ", ".join(known))


def _broken_rules(trigger: KafkaTrigger, limitation: str) -> list[tuple[str, str]]:
    """Return the rules between parameters that are broken, in KEDA's order."""
    limit = trigger.limit_to_partitions_with_lag
    even = trigger.ensure_even_distribution_of_partitions
    problems = []
    if trigger.lag_threshold <= 0:
        problems.append(("lagThreshold", "must be above 0"))
    if trigger.activation_lag_threshold < 0:
        problems.append(("activationLagThreshold", "must not be below 0"))
    if limitation.strip():
        try:
            parse_partition_limitation(limitation)
        except ValueError as error:
            problems.append(("partitionLimitation", str(error)))
    if limit and trigger.allow_idle_consumers:
        problems.append(("allowIdleConsumers", "excludes limitToPartitionsWithLag"))
    if limit and even:
        problems.append(("limitToPartitionsWithLag", "excludes an even distribution"))
    if not trigger.topic and (limit or even or not trigger.full_metadata):
        name = "limitToPartitionsWithLag" if limit else "ensureEvenDistributionOfPartitions"
        problems.append((name if limit or even else "fullMetadata", "needs a topic"))
    return problems


def security_problems(security: KafkaSecurity, auth: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (parameter, problem) of what a login lacks, TLS before SASL."""
    is_msk = security.sasl == "oauthbearer" and security.token_provider == "aws_msk_iam"  # noqa: S105 - a provider
    is_bearer = security.sasl == "oauthbearer" and not is_msk
    is_kerberos = security.sasl == "gssapi"
    proofs = sum(map(bool, (security.password, security.keytab, security.ccache_name)))
    has_keys = auth.get("awsAccessKeyID") and auth.get("awsSecretAccessKey")
    extensions = [item for item in security.extensions.split(",") if item]
    needs_login = security.sasl in _PASSWORD_SASL or is_bearer
    rules = (
        (security.is_tls and security.cert and not security.key, "key", "required with cert"),
        (security.is_tls and security.key and not security.cert, "cert", "required with key"),
        ((needs_login or is_kerberos) and not security.username, "username", "required"),
        (needs_login and not security.password, "password", "required"),
        (is_bearer and not security.token_endpoint, "oauthTokenEndpointUri", "required"),
        (
            is_bearer and any(item.count("=") != 1 for item in extensions),
            "oauthExtensions",
            "not of the form KEY=VALUE",
        ),
        (is_msk and not security.is_tls, "tls", "required for AWS MSK"),
        (is_msk and not security.aws_region, "awsRegion", "required for AWS MSK"),
        (is_msk and not has_keys and not auth.get("awsRoleArn"), "awsRoleArn", "no credentials"),
        (is_kerberos and proofs != 1, "password", "one of password, keytab and ccacheName"),
        (is_kerberos and not security.realm, "realm", "required"),
        (is_kerberos and not security.kerberos_config, "kerberosConfig", "required"),
        (
            is_kerberos and ("/" in security.ccache_name or security.ccache_name in {".", ".."}),
            "ccacheName",
            "the name of a file, not a path",
        ),
    )
    return [(name, problem) for is_broken, name, problem in rules if is_broken]


def kept_partitions(trigger: KafkaTrigger, topic: str, partitions: Sequence[int]) -> list[int]:
    """Return the partitions of ``topic`` that count; none at all is an error, as in KEDA."""
    kept = [partition for partition in partitions if trigger.keeps_partition(partition)]
    if not kept:
        raise ValueError(f"expected at least one active partition within the topic '{topic}'")
    return kept


def kafka_metadata_for_run(metadata: Mapping[str, str], sources: RunSources) -> Mapping[str, str]:
    """Return the metadata with the run's brokers, topic and group, also for variables' names."""
    given = {
        "bootstrapServers": sources.bootstrap_servers,
        "topic": sources.topic,
        "consumerGroup": sources.group,
    }
    replaced = {f"{name}FromEnv" for name in given}
    return {**{k: text for k, text in metadata.items() if k not in replaced}, **given}


def kafka_remarks(trigger: Any, metadata: Mapping[str, str]) -> Iterator[Remark]:
    """Yield the servers that cannot be dialled, and a topic that cannot exist."""
    yield from _servers(trigger.bootstrap_servers, metadata)
    topic = trigger.topic
    if topic and not is_unknown(topic) and (not _TOPIC.fullmatch(topic) or topic in {".", ".."}):
        yield Remark(
            "broken",
            "topic-impossible",
            *_written("topic", metadata),
            "no topic can have this name (letters, digits, '.', '_' and '-', at most 249 "
            "characters): KEDA reads one topic for each trigger, and no pattern",
            "one trigger for each topic, or no topic: then all topics of the group count",
        )


def _servers(servers: tuple[str, ...], metadata: Mapping[str, str]) -> Iterator[Remark]:
    problems = [
        f"address {server}: {problem}"
        for server in servers
        if not is_unknown(server) and (problem := address_problem(server)) is not None
    ]
    if not problems:
        return
    is_none_left = len(problems) == len(servers)
    name, value = _written("bootstrapServers", metadata)
    said = "; ".join(problems) if name == "bootstrapServers" else "a wrong address"
    effect = "the client never connects" if is_none_left else "the client skips it"
    yield Remark(
        "broken" if is_none_left else "warning",
        "server-address",
        name,
        value,
        f"{said}: {effect}",
        ",".join(map(_repaired, servers)) if name == "bootstrapServers" else "HOST:PORT",
    )


def _written(name: str, metadata: Mapping[str, str]) -> tuple[str, str]:
    """Return the key that gives a parameter, and its value; a variable's own is not shown."""
    key = name if (metadata.get(name) or "").strip() else f"{name}FromEnv"
    return key, str(metadata.get(key) or "")


def address_problem(address: str) -> str | None:
    """Return why an address cannot be dialled; None: it can be one."""
    host, colon, port = address.rpartition(":")
    if not colon or (address.startswith("[") and address.endswith("]")):
        return "missing port"
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        return "too many colons"
    if not _HOST.fullmatch(host):
        return "no such host"
    if not re.fullmatch(r"[0-9]+", port):
        return "unknown port"
    return None if 0 < int(port) <= _HIGHEST_PORT else "invalid port"


def _repaired(server: str) -> str:
    """Return a list of servers as KEDA reads it, with Kafka's port where there is none."""
    pieces = [re.sub(r"^[A-Za-z_]+://", "", piece) for piece in re.split(r"[;\s]+", server.strip())]
    return ",".join(
        piece
        if address_problem(piece) is None
        else f"{piece.partition(':')[0] or 'HOST'}:{_DEFAULT_PORT}"
        for piece in pieces
        if piece
    )


KAFKA = TriggerType(
    "kafka",
    parse_kafka_trigger,
    beyond=_beyond,
    target_milli=lambda trigger: trigger.target_milli,
    outage="scaler",
    read_parameters=metadata_keys(KafkaTrigger, KafkaSecurity) | {"partitionLimitation"},
    remarks=kafka_remarks,
    for_run=kafka_metadata_for_run,
)

KAFKA_SCALING_KEYS = KAFKA.read_parameters - {
    *metadata_keys(KafkaSecurity),
    *("bootstrapServers", "topic", "consumerGroup", "version", "fullMetadata"),
}
"""Keys of the metadata that say how it scales; the others say what it reads, and by which way."""
