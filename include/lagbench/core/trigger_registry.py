"""Which trigger types a ScaledObject may hold here, and how each is parsed.

A new type adds a parser to ``TRIGGER_PARSERS`` and a reader of values to the live autoscaler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from lagbench.core.kafka_trigger import KafkaTrigger, parse_kafka_trigger
from lagbench.errors import WrongInput


class ExternalTrigger(Protocol):
    """What the HPA needs to know of a trigger that yields one external metric."""

    def metric_name(self, trigger_index: int) -> str:
        """Return the name under which the HPA asks for the metric."""
        ...

    @property
    def target_milli(self) -> int:
        """Return the target per replica in thousandths."""
        ...


TriggerParser = Callable[[Mapping[str, str], str, str, Mapping[str, str]], KafkaTrigger]


def _parse_kafka(
    metadata: Mapping[str, str], where: str, field: str, environment: Mapping[str, str]
) -> KafkaTrigger:
    return parse_kafka_trigger(metadata, where=where, field=field, environment=environment)


TRIGGER_PARSERS: Mapping[str, TriggerParser] = {"kafka": _parse_kafka}


def parse_trigger(
    kind: object,
    metadata: Mapping[str, str],
    *,
    where: str,
    field: str,
    environment: Mapping[str, str],
) -> KafkaTrigger:
    """Return the parsed parameters; an unknown or unsupported type is ``WrongInput``."""
    parser = TRIGGER_PARSERS.get(str(kind))
    if parser is None:
        allowed = f"{', '.join(TRIGGER_PARSERS)} (the trigger types of the embedded autoscaler)"
        raise WrongInput(where=where, field=f"{field}.type", value=kind, allowed=allowed)
    return parser(metadata, where, f"{field}.metadata", environment)
