"""The parameters of each trigger, as KEDA parses them."""

from lagbench.core.keda.triggers.authentication import (
    AuthenticationRef,
    TargetEnvironment,
    authentication_refs,
    decode_secret,
    parse_authentication_ref,
    referenced_objects,
    resolve_authentication,
)
from lagbench.core.keda.triggers.container_variables import (
    ContainerVariables,
    container_variables,
    is_unknown,
)
from lagbench.core.keda.triggers.cron import CronTrigger
from lagbench.core.keda.triggers.external import ExternalTrigger
from lagbench.core.keda.triggers.go_duration import duration_seconds_of
from lagbench.core.keda.triggers.kafka import (
    KAFKA_DEFAULT_LAG_THRESHOLD,
    KafkaTrigger,
    OffsetResetPolicy,
    kafka_metadata_for_run,
    kept_partitions,
    parse_partition_limitation,
)
from lagbench.core.keda.triggers.kafka_security import KafkaSecurity, check_security, read_security
from lagbench.core.keda.triggers.lag_query import parse_lag_query
from lagbench.core.keda.triggers.parameters import (
    ParameterReader,
    ParameterSources,
    go_boolean,
    normalize_metric_name,
)
from lagbench.core.keda.triggers.prometheus import PrometheusTrigger
from lagbench.core.keda.triggers.registry import RESOURCE_TYPES, TRIGGER_TYPES, parse_trigger
from lagbench.core.keda.triggers.resource import ResourceTrigger
from lagbench.core.keda.triggers.trigger_type import (
    Outage,
    RunSources,
    SampledLag,
    TriggerParameters,
    TriggerSource,
)

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
    "ParameterReader",
    "ParameterSources",
    "PrometheusTrigger",
    "ResourceTrigger",
    "RunSources",
    "SampledLag",
    "TargetEnvironment",
    "TriggerParameters",
    "TriggerSource",
    "authentication_refs",
    "check_security",
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
    "read_security",
    "referenced_objects",
    "resolve_authentication",
]
