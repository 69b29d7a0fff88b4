"""The ``kafka`` trigger of a ScaledObject: its parameters, read and checked as KEDA does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from lagbench.core.keda.refusals import NotSupported, TriggerRefused
from lagbench.core.keda.triggers.kafka_remarks import kafka_remarks
from lagbench.core.keda.triggers.kafka_security import KafkaSecurity, check_security, read_security
from lagbench.core.keda.triggers.parameters import (
    ParameterReader,
    ParameterSources,
    normalize_metric_name,
)
from lagbench.core.keda.triggers.trigger_type import (
    RunSources,
    TriggerParameters,
    TriggerSource,
    TriggerType,
)

__all__ = [
    "KAFKA",
    "KAFKA_DEFAULT_LAG_THRESHOLD",
    "KafkaTrigger",
    "TriggerRefused",
    "kept_partitions",
    "parse_kafka_trigger",
    "parse_partition_limitation",
]

KAFKA_DEFAULT_LAG_THRESHOLD = 10
"""KEDA's default of ``lagThreshold``, in records for each replica."""
OffsetResetPolicy = Literal["latest", "earliest"]
_RESET_POLICIES: tuple[OffsetResetPolicy, ...] = ("latest", "earliest")
_MOST_PARTITIONS = 100_000  # no topic has more: the rest of a range keeps nothing
_INT32 = (-(2**31), 2**31 - 1)
# Versions before 1.0 have four numbers and begin with 0.
_KAFKA_VERSION = re.compile(r"0\.\d+\.\d+\.\d+|[1-9]\d*\.\d+\.\d+")
_SPOKEN_SASL = ("none", "plaintext", "scram_sha256", "scram_sha512")
_READ = """
    bootstrapServers consumerGroup topic lagThreshold activationLagThreshold offsetResetPolicy
    partitionLimitation allowIdleConsumers excludePersistentLag scaleToZeroOnInvalidOffset
    limitToPartitionsWithLag ensureEvenDistributionOfPartitions fullMetadata version tls sasl
    unsafeSsl saslTokenProvider awsRegion
"""


class KafkaTrigger(TriggerParameters):
    """Parameters of one kafka trigger after KEDA's parsing; ``topic`` empty means all topics."""

    bootstrap_servers: tuple[str, ...]
    consumer_group: str
    topic: str = ""
    partition_limitation: tuple[int, ...] | None = None
    lag_threshold: int = KAFKA_DEFAULT_LAG_THRESHOLD
    activation_lag_threshold: int = 0
    offset_reset_policy: OffsetResetPolicy = "latest"
    allow_idle_consumers: bool = False
    exclude_persistent_lag: bool = False
    scale_to_zero_on_invalid_offset: bool = False
    limit_to_partitions_with_lag: bool = False
    ensure_even_distribution_of_partitions: bool = False
    full_metadata: bool = True
    version: str = "1.0.0"
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


def parse_kafka_trigger(
    metadata: Mapping[str, str],
    *,
    where: str = "trigger",
    field: str = "metadata",
    auth: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    is_auth_known: bool = True,
) -> KafkaTrigger:
    """Return the trigger's parameters; ``TriggerRefused`` with KEDA's message if rejected.

    ``is_auth_known`` False: the content of the TriggerAuthentication is not known yet, so the rules
    on TLS and SASL are checked later.
    """
    sources = ParameterSources(metadata, auth or {}, {} if environment is None else environment)
    reader = ParameterReader(sources)
    servers = reader.required_text("bootstrapServers", order=("metadata", "env"))
    group = reader.required_text("consumerGroup", order=("metadata", "env"))
    topic = reader.text("topic", order=("metadata", "env"))
    limitation = reader.text("partitionLimitation")
    policy = reader.choice("offsetResetPolicy", _RESET_POLICIES, default="latest")
    values = {
        "bootstrap_servers": tuple(piece.strip() for piece in servers.split(",")),
        "consumer_group": group,
        "topic": topic,
        "lag_threshold": reader.integer("lagThreshold", default=KAFKA_DEFAULT_LAG_THRESHOLD),
        "activation_lag_threshold": reader.integer("activationLagThreshold", default=0),
        "offset_reset_policy": policy,
        "allow_idle_consumers": reader.boolean("allowIdleConsumers"),
        "exclude_persistent_lag": reader.boolean("excludePersistentLag"),
        "scale_to_zero_on_invalid_offset": reader.boolean("scaleToZeroOnInvalidOffset"),
        "limit_to_partitions_with_lag": reader.boolean("limitToPartitionsWithLag"),
        "ensure_even_distribution_of_partitions": reader.boolean(
            "ensureEvenDistributionOfPartitions"
        ),
        "full_metadata": reader.boolean("fullMetadata", default=True),
        "version": reader.text("version", default="1.0.0"),
    }
    security = read_security(reader)
    # A field that could not be read does not stop the validator: KEDA reports both.
    problem = _problem(values, limitation)
    if problem is None and is_auth_known:
        problem = check_security(security, sources.auth)
    errors = [*reader.errors, *([problem] if problem else [])]
    message = "error parsing kafka metadata: " + "\n".join(errors) if errors else None
    if message is None and not _KAFKA_VERSION.fullmatch(str(values["version"])):
        message = f"error parsing kafka version: invalid version `{values['version']}`"
    if message is not None:
        raise TriggerRefused(
            where=where,
            field=field,
            value=dict(metadata),
            keda_message=f"error parsing kafka metadata: {message}",
        )
    kept = parse_partition_limitation(limitation) if topic and limitation.strip() else None
    return KafkaTrigger.model_validate(
        {**values, "partition_limitation": kept, "security": security}
    )


def _problem(values: Mapping[str, object], limitation: str) -> str | None:
    """Return the first rule of KEDA's validator that is broken, in its order."""
    limit, even = (
        values["limit_to_partitions_with_lag"],
        values["ensure_even_distribution_of_partitions"],
    )
    lag_threshold, activation = values["lag_threshold"], values["activation_lag_threshold"]
    if isinstance(lag_threshold, int) and lag_threshold <= 0:
        return '"lagThreshold" must be positive number'
    if isinstance(activation, int) and activation < 0:
        return '"activationLagThreshold" must be a non-negative number'
    if limitation.strip():
        try:
            parse_partition_limitation(limitation)
        except ValueError as error:
            return str(error)
    even_name = "ensureEvenDistributionOfPartitions"
    rules = (
        (
            values["allow_idle_consumers"] and limit,
            "allowIdleConsumers and limitToPartitionsWithLag cannot be set simultaneously",
        ),
        (
            limit and not values["topic"],
            "topic must be specified when using limitToPartitionsWithLag",
        ),
        (
            limit and even,
            f"limitToPartitionsWithLag and {even_name} cannot be set simultaneously",
        ),
        (
            even and not values["topic"],
            f"topic must be specified when using {even_name}",
        ),
        (
            not values["full_metadata"] and not values["topic"],
            "topic must be specified when fullMetadata is false",
        ),
    )
    return next((message for is_broken, message in rules if is_broken), None)


def parse_partition_limitation(text: str) -> tuple[int, ...]:
    """Return the partitions of ``1,2,5-9``; a reversed range yields nothing.

    :raises ValueError: it has another form.
    """
    partitions: list[int] = []
    for piece in (piece.strip() for piece in text.split(",")):
        if "-" in piece:
            ends = [_int32(end.strip()) for end in piece.split("-")]
            first, last = ends if len(ends) == 2 else (None, None)
            if first is None or last is None:
                raise ValueError(f"invalid partition limitation range: {piece}")
            room = _MOST_PARTITIONS - len(partitions)
            partitions += range(first, min(last + 1, first + room))
        else:
            partition = _int32(piece)
            if partition is None:
                raise ValueError(f"invalid partition limitation: {piece}")
            partitions.append(partition)
    return tuple(partitions)


def kept_partitions(trigger: KafkaTrigger, topic: str, partitions: Sequence[int]) -> list[int]:
    """Return the partitions of ``topic`` that count; none at all is an error, as in KEDA."""
    kept = [partition for partition in partitions if trigger.keeps_partition(partition)]
    if not kept:
        raise ValueError(f"expected at least one active partition within the topic '{topic}'")
    return kept


def _int32(text: str) -> int | None:
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        return None
    number = int(text)
    return number if _INT32[0] <= number <= _INT32[1] else None


def kafka_metadata_for_run(metadata: Mapping[str, str], sources: RunSources) -> Mapping[str, str]:
    """Return the metadata with the run's brokers, topic and group, also for variables' names."""
    given = {
        "bootstrapServers": sources.bootstrap_servers,
        "topic": sources.topic,
        "consumerGroup": sources.group,
    }
    replaced = {f"{name}FromEnv" for name in given}
    return {**{k: text for k, text in metadata.items() if k not in replaced}, **given}


def _parse(source: TriggerSource) -> KafkaTrigger:
    trigger = parse_kafka_trigger(
        source.metadata,
        where=source.where,
        field=f"{source.field}.metadata",
        auth=source.auth,
        environment=source.environment,
        is_auth_known=source.auth is not None,
    )
    if trigger.security.sasl not in _SPOKEN_SASL:
        raise NotSupported(
            where=source.where,
            field=f"{source.field}.metadata.sasl",
            value=trigger.security.sasl,
            allowed=f"{', '.join(_SPOKEN_SASL)}: KEDA supports it, the scaler of this bench does "
            "not",
        )
    return trigger


KAFKA = TriggerType(
    "kafka",
    _parse,
    target_milli=lambda trigger: trigger.target_milli,
    outage="scaler",
    read_parameters=frozenset(_READ.split()),
    remarks=kafka_remarks,
    for_run=kafka_metadata_for_run,
)
