"""The parameters of each trigger, as KEDA parses them."""

from lagbench.core.keda.triggers.authentication import (
    AuthenticationRef,
    ContainerVariables,
    TargetEnvironment,
    authentication_refs,
    container_variables,
    decode_secret,
    is_unknown,
    parse_authentication_ref,
    referenced_objects,
    resolve_authentication,
)
from lagbench.core.keda.triggers.cron import CronTrigger
from lagbench.core.keda.triggers.kafka import (
    KAFKA_DEFAULT_LAG_THRESHOLD,
    KafkaSecurity,
    KafkaTrigger,
    OffsetResetPolicy,
    kafka_metadata_for_run,
    kept_partitions,
    parse_partition_limitation,
    security_problems,
)
from lagbench.core.keda.triggers.other_types import (
    RESOURCE_TYPES,
    TRIGGER_TYPES,
    ExternalTrigger,
    ResourceTrigger,
    parse_trigger,
)
from lagbench.core.keda.triggers.parameters import (
    Outage,
    RunSources,
    SampledLag,
    TriggerParameters,
    TriggerSource,
    duration_seconds_of,
    go_boolean,
    normalize_metric_name,
    read_values,
)
from lagbench.core.keda.triggers.prometheus import PrometheusTrigger
from lagbench.core.keda.triggers.promql import parse_lag_query

__all__ = [
    "KAFKA_DEFAULT_LAG_THRESHOLD",
    "RESOURCE_TYPES",
    "TRIGGER_TYPES",
    "AuthenticationRef",
    "ContainerVariables",
    "CronTrigger",
    "ExternalTrigger",
    "KafkaSecurity",
    "KafkaTrigger",
    "OffsetResetPolicy",
    "Outage",
    "PrometheusTrigger",
    "ResourceTrigger",
    "RunSources",
    "SampledLag",
    "TargetEnvironment",
    "TriggerParameters",
    "TriggerSource",
    "authentication_refs",
    "container_variables",
    "decode_secret",
    "duration_seconds_of",
    "go_boolean",
    "is_unknown",
    "kafka_metadata_for_run",
    "kept_partitions",
    "normalize_metric_name",
    "parse_authentication_ref",
    "parse_lag_query",
    "parse_partition_limitation",
    "parse_trigger",
    "read_values",
    "referenced_objects",
    "resolve_authentication",
    "security_problems",
]
