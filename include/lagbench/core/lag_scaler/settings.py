"""Read and check a ScaledObject's metadata for the lag scaler, once.

A value is looked up under its own name, under ``<name>FromEnv`` (where KEDA has put the resolved
value), then in the server's environment; else the default of ``LagRule`` applies. A key that
is almost one of the known ones is rejected, because a misspelt limit would silently be its default.
Any other unknown key is kept in ``unknown_keys`` for a warning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from lagbench.core.keda.triggers import normalize_metric_name, parse_partition_limitation
from lagbench.core.lag_scaler.lag_source import GroupTopic
from lagbench.core.lag_scaler.metadata_keys import SECRET_KEYS, near_miss, unknown_keys
from lagbench.core.lag_scaler.metadata_reader import InvalidMetadata, MetadataReader
from lagbench.core.lag_scaler.rule_parameters import LagRule
from lagbench.core.lag_scaler.source_address import IggyServer, SourceAddress, read_source

__all__ = ["InvalidMetadata", "LagSettings", "parse_lag_settings"]

_MOST_RECORDS = 10**15
_MOST_SECONDS = 86_400.0
# The HPA's own limit for a stabilisation window.
_MOST_STABILIZATION_SECONDS = 3600.0
# A ring of 2,000 samples of 2,400 partitions is 77 MB; more is a mistake.
_MOST_SAMPLES = 2000
_MOST_KEYS = 100  # twice as many as there are; each unknown one is compared with all known ones
_MOST_NAMED_PARTITIONS = 5_000


class LagSettings(BaseModel):
    """One object's request: the source of offsets, the group and topic, and the rule."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: SourceAddress
    group_topic: GroupTopic
    rule: LagRule
    unknown_keys: tuple[str, ...] = ()

    @property
    def metric_name(self) -> str:
        """Return the name under which KEDA requests the metric, without its ``s<i>-`` prefix."""
        kind = self.source.name.partition(":")[0]
        named = f"persistent-{kind}-lag-{self.group_topic.topic}-{self.group_topic.group}"
        return normalize_metric_name(named)

    @property
    def target(self) -> float:
        """Return the target per replica that belongs to the metric."""
        return float(self.rule.lag_threshold)


def parse_lag_settings(
    metadata: Mapping[str, str],
    environment: Mapping[str, str] | None = None,
    *,
    allowed_servers: Sequence[str] = ("*",),
) -> LagSettings:
    """Return the settings of one object; ``InvalidMetadata`` lists every unusable value.

    ``allowed_servers``: see ``allowed_servers_of``.
    """
    reader = MetadataReader(metadata, environment or {}, allowed_servers)
    if len(metadata) > _MOST_KEYS:
        reader.refuse("metadata", f"{len(metadata)} keys", f"at most {_MOST_KEYS} keys")
        raise InvalidMetadata(reader.problems)
    unknown = unknown_keys(metadata)
    for key in unknown:
        meant = near_miss(key)
        if meant is not None:
            value = "(not shown)" if meant in SECRET_KEYS else metadata[key]
            reader.refuse(key, value, f"did you mean {meant}?")
    reader.refuse_literal_secrets()
    source, group_topic = read_source(reader)
    rule = _read_rule(reader, is_iggy=isinstance(source, IggyServer))
    if reader.problems:
        raise InvalidMetadata(reader.problems)
    return LagSettings(source=source, group_topic=group_topic, rule=rule, unknown_keys=unknown)


def _read_rule(reader: MetadataReader, *, is_iggy: bool) -> LagRule:
    usual = LagRule()
    may_be_zero = reader.flag("scaleToZeroOnInvalidOffset")
    rule = LagRule(
        lag_threshold=reader.integer(
            "lagThreshold", usual.lag_threshold, least=1, most=_MOST_RECORDS
        ),
        activation_lag_threshold=reader.integer(
            "activationLagThreshold", usual.activation_lag_threshold, least=0, most=_MOST_RECORDS
        ),
        sustain_seconds=reader.seconds(
            "sustainSeconds", usual.sustain_seconds, least=0, most=_MOST_SECONDS
        ),
        sampling_interval_seconds=reader.seconds(
            "samplingInterval", usual.sampling_interval_seconds, least=1, most=3600
        ),
        window_size=reader.integer("windowSize", usual.window_size, least=2, most=_MOST_SAMPLES),
        scale_up_stabilization_seconds=_stabilization(reader, "scaleUpStabilization"),
        scale_down_stabilization_seconds=_stabilization(reader, "scaleDownStabilization"),
        lag_scope=reader.choice("lagScope", ("partition", "total")),
        lag_metric=reader.choice("lagMetric", ("records", "seconds", "projected")),
        offset_reset_policy=reader.choice("offsetResetPolicy", ("latest", "earliest")),
        scale_to_zero_on_invalid_offset=may_be_zero,
        wakes_for_backlog=may_be_zero and is_iggy,
        exclude_persistent_lag=reader.flag("excludePersistentLag"),
        partition_limitation=_limitation(reader),
        limit_to_partitions_with_lag=reader.flag("limitToPartitionsWithLag"),
        allow_idle_consumers=reader.flag("allowIdleConsumers"),
        ensure_even_distribution_of_partitions=reader.flag("ensureEvenDistributionOfPartitions"),
    )
    _check_together(reader, rule)
    return rule


def _stabilization(reader: MetadataReader, name: str) -> float:
    return reader.seconds(name, 0.0, least=0, most=_MOST_STABILIZATION_SECONDS)


def _limitation(reader: MetadataReader) -> tuple[int, ...] | None:
    text = reader.find("partitionLimitation")
    if text is None:
        return None
    try:
        kept = parse_partition_limitation(text)
    except ValueError:
        kept = ()
    if not 0 < len(kept) <= _MOST_NAMED_PARTITIONS:
        allowed = f"partitions and ascending ranges, as 1,2,5-9, at most {_MOST_NAMED_PARTITIONS}"
        reader.refuse("partitionLimitation", text, allowed)
        return None
    return tuple(sorted(set(kept)))


def _check_together(reader: MetadataReader, rule: LagRule) -> None:
    """Note values that are allowed alone but not together: KEDA's two pairs, a short window."""
    if rule.limit_to_partitions_with_lag and rule.allow_idle_consumers:
        reader.refuse("allowIdleConsumers", "true", "false together with limitToPartitionsWithLag")
    if rule.limit_to_partitions_with_lag and rule.ensure_even_distribution_of_partitions:
        reader.refuse(
            "ensureEvenDistributionOfPartitions",
            "true",
            "false together with limitToPartitionsWithLag",
        )
    longest_age = rule.window_span_seconds - rule.sampling_interval_seconds
    if rule.lag_metric == "seconds" and rule.lag_threshold > longest_age:
        reader.refuse(
            "lagThreshold",
            str(rule.lag_threshold),
            f"up to {math.floor(longest_age)} with lagMetric seconds: ages are known only within "
            "the window, (windowSize - 2) x samplingInterval",
        )
    if rule.window_span_seconds < rule.sustain_seconds:
        needed = math.ceil(rule.sustain_seconds / rule.sampling_interval_seconds) + 1
        reader.refuse(
            "windowSize",
            str(rule.window_size),
            f"at least {needed}: (windowSize - 1) x samplingInterval "
            f"({rule.window_span_seconds:g} s) must reach sustainSeconds "
            f"({rule.sustain_seconds:g}), else no lag ever counts as persistent",
        )
