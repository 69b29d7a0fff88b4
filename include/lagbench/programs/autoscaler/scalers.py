"""Live readers of triggers, and the cache of them that one ScaledObject's two clocks share.

As in KEDA, the scale loop and the HPA read through the same scaler objects, so the memory of
persistent lag moves on both clocks, and any error throws all scalers of the object away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

from confluent_kafka import KafkaException

from lagbench.adapters.kafka_lag import (
    DEFAULT_TIMEOUT_SECONDS,
    open_admin,
    read_group_topics,
    read_offsets,
    read_partitions,
)
from lagbench.core.kafka_trigger import KafkaTrigger, kept_partitions
from lagbench.core.keda import TriggerPoll
from lagbench.core.lag_rules import (
    LagReading,
    PersistentLagMemory,
    needs_earliest,
    read_lag,
)
from lagbench.core.scaled_object import ScaledObjectSpec, Trigger
from lagbench.errors import NotReady


class Scaler(Protocol):
    """Reads one trigger; may remember things from poll to poll."""

    def read(self) -> LagReading:
        """Return the trigger's value and activity, or raise ``NotReady``."""
        ...


ScalerBuilder = Callable[[Trigger], Scaler]


class ScalersNotBuilt(NotReady):
    """A trigger's source cannot be reached at all, so no trigger of the object is served."""


class KafkaScaler:
    """Lag of one consumer group, by KEDA's rules."""

    def __init__(
        self, trigger: KafkaTrigger, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    ) -> None:
        """Connect; a broker that does not answer makes building fail, as KEDA's client does."""
        self._trigger = trigger
        self._timeout_seconds = timeout_seconds
        self._memory = PersistentLagMemory()
        settings: dict[str, object] = {}
        if trigger.security.is_tls:
            settings["security.protocol"] = "ssl"
            is_checked = not trigger.security.skips_verification
            settings["enable.ssl.certificate.verification"] = is_checked
        servers = ",".join(trigger.bootstrap_servers)
        self._admin = open_admin(servers, settings)
        try:
            self._admin.list_topics(timeout=timeout_seconds)
        except KafkaException as error:
            raise ScalersNotBuilt(
                f"error creating kafka client: no broker of {servers} answers: "
                f"{error.args[0].str()}"
            ) from error

    def read(self) -> LagReading:
        """Read all offsets and apply the rules; the memory advances only on success."""
        trigger, timeout = self._trigger, self._timeout_seconds
        if trigger.topic:
            topics = [trigger.topic]
        else:
            topics = read_group_topics(self._admin, trigger.consumer_group, timeout_seconds=timeout)
        try:
            places = [
                (topic, partition)
                for topic in topics
                for partition in kept_partitions(
                    trigger,
                    topic,
                    read_partitions(self._admin, topic, timeout_seconds=timeout),
                )
            ]
        except ValueError as error:
            raise NotReady(str(error)) from error
        offsets = read_offsets(
            self._admin,
            trigger.consumer_group,
            places,
            wants_earliest=lambda partition: needs_earliest(trigger, partition),
            timeout_seconds=timeout,
        )
        reading, self._memory = read_lag(trigger, offsets, self._memory)
        return reading


def build_scaler(trigger: Trigger) -> Scaler:
    """Return a reader of the trigger; its type was checked when it was parsed."""
    return SCALER_BUILDERS[trigger.type](trigger)


def _kafka_scaler(trigger: Trigger) -> Scaler:
    if not isinstance(trigger.parameters, KafkaTrigger):
        raise NotReady(f"no scaler found for type: {trigger.type}")
    return KafkaScaler(trigger.parameters)


SCALER_BUILDERS: Mapping[str, ScalerBuilder] = {"kafka": _kafka_scaler}


class ScalerCache:
    """The scalers of one ScaledObject generation; one caller at a time."""

    def __init__(
        self,
        spec: ScaledObjectSpec,
        *,
        build: ScalerBuilder = build_scaler,
        built: Callable[[Trigger], None] = lambda _: None,
    ) -> None:
        """Build with ``build``, reporting each scaler to ``built``; nothing is built yet."""
        self._spec = spec
        self._build = build
        self._built = built
        self._scalers: dict[int, Scaler] = {}
        self._lock = threading.Lock()
        self.hpa_readings: dict[str, LagReading] = {}
        self.loop_readings: dict[str, LagReading] = {}

    def ensure_built(self) -> None:
        """Build what is missing; one unreachable source fails them all."""
        with self._lock:
            self._build_all()

    def read_for_hpa(self, trigger: Trigger) -> LagReading:
        """Return one trigger's reading for an HPA sync: live, or the loop's when cached."""
        cached = self.loop_readings.get(trigger.metric_name)
        if trigger.uses_cached_metrics and cached is not None:
            return cached
        with self._lock:
            self._build_all()
            try:
                reading = self._read_with_retry(trigger)
            except NotReady:
                self._scalers.clear()
                self.hpa_readings.pop(trigger.metric_name, None)
                raise
            self.hpa_readings[trigger.metric_name] = reading
            return reading

    def poll(self) -> list[TriggerPoll]:
        """Return every trigger as the scale loop sees it; ``ScalersNotBuilt`` passes through."""
        with self._lock:
            self._build_all()
            polls: list[TriggerPoll] = []
            readings: dict[str, LagReading] = {}
            for trigger in self._spec.triggers:
                name = trigger.metric_name
                try:
                    reading = readings[name] = self._read_with_retry(trigger)
                except NotReady as error:
                    polls.append(TriggerPoll(name, error=str(error)))
                else:
                    polls.append(TriggerPoll(name, float(reading.metric), reading.is_active))
            if len(readings) < len(polls):
                self._scalers.clear()
            self.loop_readings = readings
            return polls

    def polls_from_hpa_readings(self) -> list[TriggerPoll] | None:
        """Return the HPA's last readings as polls; None unless there is one for each trigger."""
        readings = [
            (trigger.metric_name, self.hpa_readings.get(trigger.metric_name))
            for trigger in self._spec.triggers
        ]
        if any(reading is None for _, reading in readings):
            return None
        return [
            TriggerPoll(name, float(reading.metric), reading.is_active)
            for name, reading in readings
            if reading is not None
        ]

    def _build_all(self) -> None:
        for trigger in self._spec.triggers:
            if trigger.index not in self._scalers:
                try:
                    self._build_one(trigger)
                except NotReady as error:
                    self._scalers.clear()
                    raise ScalersNotBuilt(str(error)) from error

    def _build_one(self, trigger: Trigger) -> Scaler:
        scaler = self._scalers[trigger.index] = self._build(trigger)
        self._built(trigger)
        return scaler

    def _read_with_retry(self, trigger: Trigger) -> LagReading:
        try:
            return self._scalers[trigger.index].read()
        except NotReady:
            # KEDA gives a failing scaler one more chance with a fresh one.
            return self._build_one(trigger).read()
