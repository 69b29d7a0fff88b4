"""Committed and end offsets of a consumer group, all partitions at once, every wait bounded.

A reading is whole or it fails with ``NotReady``: a partition that could not be read is never
shown as zero. Reading joins no group and creates no topic.

Committed offsets are asked for by a consumer that never subscribes, not by the admin client: with
librdkafka 2.16.1 an admin request to a group's coordinator that times out while the broker goes
away makes a later answer crash the process (assertion in rd_kafka_admin_coord_response_parse).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]  # it has no __all__
from pydantic import SecretStr

from lagbench.core.keda.loop.source_metrics import PartitionOffsets, needs_earliest
from lagbench.core.keda.triggers.kafka_parameters import (
    KafkaSecurity,
    KafkaTrigger,
    kept_partitions,
)
from lagbench.errors import NotReady
from pod_program.kafka_config import login_settings, password_login
from pod_program.kafka_settings import RECOVERY, own_settings, spoken

Place = tuple[str, int]
DEFAULT_TIMEOUT_SECONDS = 5.0
_SPEC: Any = OffsetSpec  # its methods carry no types

# librdkafka may answer this much after the request's own timeout; then the future is given up.
_MARGIN_SECONDS = 1.0

_OTHER_LEADER = {
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.NOT_LEADER_FOR_PARTITION,
}
"""After these errors the metadata are requested: librdkafka 2.16.1 continues with those from before
a broker's restart (measured: for 85 s) and renews them only every five minutes.
"""


class LagClient(AdminClient):
    """An admin client with a consumer beside it for each group whose commits were asked for.

    It reads the offsets that are committed by now, as KEDA does: with librdkafka's default a
    reading would fail while a transaction is open in which a member sends offsets. Where that is
    to be awaited, ``awaits_transactions``.
    """

    def __init__(self, settings: Mapping[str, Any], *, awaits_transactions: bool = False) -> None:
        """Connect with librdkafka's settings."""
        super().__init__(dict(settings))
        self.servers = str(settings.get("bootstrap.servers", ""))
        isolation = "read_committed" if awaits_transactions else "read_uncommitted"
        self._settings = {**settings, "isolation.level": isolation}
        self._consumers: dict[str, Consumer] = {}
        self._consumers_lock = threading.Lock()

    def consumer_of(self, group: str) -> Consumer:
        """Return the consumer that speaks to the group's coordinator; it joins no group."""
        with self._consumers_lock:
            if group not in self._consumers:
                own = {"group.id": group, "enable.auto.commit": False}
                self._consumers[group] = Consumer({**self._settings, **own})
            return self._consumers[group]

    def offsets(self, group: str, topic: str) -> dict[int, PartitionOffsets]:
        """Return end and committed offset of every partition of ``topic``."""
        return read_group_lag(self, group, topic)

    def lags(self, group: str, topic: str) -> dict[int, int]:
        """Return the messages of each partition that the group has not committed yet.

        Without a commit all messages that the partition still keeps count. A commit beyond the end
        (read after it, or of a topic that was created again) counts as 0: a negative lag would hide
        the lag of another partition.
        """
        places = [(topic, number) for number in read_partitions(self, topic)]
        found = read_offsets(self, group, places, wants_earliest=lambda at: at.committed is None)
        lags = {}
        for (_, number), at in found.items():
            begin = at.earliest if at.committed is None else at.committed
            if at.end is None or begin is None:
                raise NotReady(f"the offsets of {topic} partition {number} are unknown")
            lags[number] = max(at.end - begin, 0)
        return lags

    def close(self) -> None:
        """Close the consumers; librdkafka closes the admin client when the object is deleted."""
        with self._consumers_lock:
            consumers = list(self._consumers.values())
            self._consumers.clear()
        for consumer in consumers:
            consumer.close()


def open_admin(
    bootstrap_servers: str,
    settings: Mapping[str, Any] | None = None,
    *,
    awaits_transactions: bool = False,
) -> LagClient:
    """Return an admin client that recovers soon from an outage; its own log lines are quiet."""
    return LagClient(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "lagbench-lag-reader",
            **RECOVERY,
            "socket.connection.setup.timeout.ms": 5_000,
            "log_level": 2,
            **(settings or {}),
        },
        awaits_transactions=awaits_transactions,
    )


def read_group_lag(
    admin: LagClient, group: str, topic: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> dict[int, PartitionOffsets]:
    """Return end and committed offset of every partition of ``topic``."""
    partitions = read_partitions(admin, topic, timeout_seconds=timeout_seconds)
    places = [(topic, partition) for partition in partitions]
    offsets = read_offsets(admin, group, places, timeout_seconds=timeout_seconds)
    return {partition: offsets[topic, partition] for partition in partitions}


def read_partitions(
    admin: LagClient, topic: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[int]:
    """Return the partitions of a topic in ascending order."""
    what = f"describe topic {topic} at {admin.servers}"
    asked = _asked(
        what,
        lambda: admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_seconds),
    )
    description = _answer(what, asked[topic], timeout_seconds)
    return sorted(partition.id for partition in description.partitions)


def read_group_topics(
    admin: LagClient, group: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> list[str]:
    """Return the topics for which the group has committed offsets."""
    what = f"list the topics of {group} at {admin.servers}"
    topics = _asked(what, lambda: admin.list_topics(timeout=timeout_seconds)).topics
    places = [(name, number) for name, topic in topics.items() for number in topic.partitions]
    committed = _committed(admin, group, places, timeout_seconds)
    return sorted({topic for (topic, _), offset in committed.items() if offset is not None})


def read_offsets(
    admin: LagClient,
    group: str,
    places: Iterable[Place],
    *,
    wants_earliest: Callable[[PartitionOffsets], bool] = lambda _: False,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> dict[Place, PartitionOffsets]:
    """Return the offsets of ``places``; committed and end offsets are requested together.

    Oldest offsets are requested for the places of ``wants_earliest``; a missing one is not an
    error.
    """
    wanted = list(places)
    end_answers = _list_offsets(admin, wanted, _SPEC.latest(), timeout_seconds)
    committed = _committed(admin, group, wanted, timeout_seconds)
    missing = [place for place in wanted if place not in committed]
    if missing:
        raise NotReady(
            f"could not read the offsets of group {group} at {admin.servers}: no answer for "
            f"{missing[0][0]} partition {missing[0][1]} ({len(missing)} of {len(wanted)} missing). "
            "Try again"
        )
    found = {
        place: PartitionOffsets(
            end=_end(admin, place, end_answers[place], timeout_seconds), committed=committed[place]
        )
        for place in wanted
    }
    unsure = [place for place, offsets in found.items() if wants_earliest(offsets)]
    for place, earliest in _earliest(admin, unsure, timeout_seconds).items():
        found[place] = PartitionOffsets(found[place].end, found[place].committed, earliest)
    return found


def _end(admin: LagClient, place: Place, future: Any, timeout_seconds: float) -> int:
    what = f"read the end of {place} at {admin.servers}"
    try:
        end = int(_answer(what, future, timeout_seconds).offset)
    except NotReady as problem:
        cause = problem.__cause__
        reason = cause.args[0] if isinstance(cause, KafkaException) else None
        if reason is not None and reason.code() in _OTHER_LEADER:
            with contextlib.suppress(KafkaException):
                admin.list_topics(timeout=timeout_seconds)
        raise
    if end < 0:  # -1001 from a broker that stood still: an answer without an offset
        raise NotReady(f"could not {what}: the answer has no offset. Try again")
    return end


def _committed(
    admin: LagClient, group: str, places: list[Place], timeout_seconds: float
) -> dict[Place, int | None]:
    if not places:
        return {}
    what = f"read the committed offsets of group {group} at {admin.servers}"
    partitions = [TopicPartition(*place) for place in places]
    answers = _asked(
        what, lambda: admin.consumer_of(group).committed(partitions, timeout=timeout_seconds)
    )
    found: dict[Place, int | None] = {}
    for item in answers:
        if item.error is not None:
            place = f"{item.topic} partition {item.partition}"
            raise NotReady(
                f"could not {what}: {place}: {item.error}. Try again"
            ) from KafkaException(item.error)
        found[item.topic, item.partition] = item.offset if item.offset >= 0 else None
    return found


def _list_offsets(
    admin: LagClient, places: list[Place], spec: Any, timeout_seconds: float
) -> dict[Place, Any]:
    if not places:
        return {}
    request = {TopicPartition(*place): spec for place in places}
    what = f"list the offsets of {places[0][0]} at {admin.servers}"
    asked = _asked(what, lambda: admin.list_offsets(request, request_timeout=timeout_seconds))
    return {(item.topic, item.partition): future for item, future in asked.items()}


def _earliest(admin: LagClient, places: list[Place], timeout_seconds: float) -> dict[Place, int]:
    found: dict[Place, int] = {}
    with contextlib.suppress(NotReady):
        answers = _list_offsets(admin, places, _SPEC.earliest(), timeout_seconds)
        for place, future in answers.items():
            with contextlib.suppress(NotReady):
                start = int(_answer(f"read the start of {place}", future, timeout_seconds).offset)
                if start >= 0:  # else -1001: an answer without an offset
                    found[place] = start
    return found


def _asked(what: str, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (KafkaException, RuntimeError, ValueError, TypeError) as error:
        raise NotReady(f"could not {what}: {spoken(error)}") from error


def _answer(what: str, future: Any, timeout_seconds: float) -> Any:
    limit_seconds = timeout_seconds + _MARGIN_SECONDS
    try:
        return future.result(timeout=limit_seconds)
    except FutureTimeoutError as error:
        after = f"no answer within {limit_seconds:.0f} s. Check that the broker is up"
        raise NotReady(f"could not {what}: {after}") from error
    except KafkaException as error:
        # The future keeps the error, and its trace would keep every caller's frame: a ring that
        # holds the client with its connections until the garbage collector comes by.
        cause = error.with_traceback(None)
        raise NotReady(f"could not {what}: {spoken(error)}") from cause


def security_settings(security: KafkaSecurity) -> dict[str, object]:
    """Return librdkafka's settings; they hold secrets, so they are passed on and never shown.

    A trigger is admitted with a login by password or none: the packaged librdkafka has neither
    Kerberos nor AWS signing.
    """
    password = _revealed(security.password)
    return login_settings(
        is_tls=security.is_tls,
        skips_verification=security.skips_verification,
        pem={
            "ca": _revealed(security.ca),
            "certificate": _revealed(security.cert),
            "key": _revealed(security.key),
            "password": _revealed(security.key_password),
        },
        sasl=None
        if security.sasl == "none"
        else password_login(security.sasl, security.username, password),
    )


def _revealed(secret: SecretStr | None) -> str:
    return "" if secret is None else secret.get_secret_value()


def open_trigger(trigger: KafkaTrigger, environment: Mapping[str, str] | None = None) -> LagClient:
    """Return a client of the trigger's cluster; nothing is asked yet.

    :param environment: names the file of the bench's settings; None: this process's.
    """
    return open_admin(",".join(trigger.bootstrap_servers), trigger_settings(trigger, environment))


def trigger_settings(
    trigger: KafkaTrigger, environment: Mapping[str, str] | None = None
) -> Mapping[str, object]:
    """Return the settings of the trigger's log-in; without one, those of the bench's Kafka."""
    security = trigger.security
    if security.sasl != "none" or security.is_tls:
        return security_settings(security)
    return own_settings(",".join(trigger.bootstrap_servers), environment)


def read_trigger_offsets(
    client: LagClient, trigger: KafkaTrigger, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
) -> dict[Place, PartitionOffsets]:
    """Return the offsets of the partitions that count, in the order of topic and partition.

    :param timeout_seconds: for each request.
    """
    group, topics = trigger.consumer_group, [trigger.topic]
    if not trigger.topic:
        topics = read_group_topics(client, group, timeout_seconds=timeout_seconds)
    places = [
        (topic, partition)
        for topic in topics
        for partition in kept_partitions(
            trigger, topic, read_partitions(client, topic, timeout_seconds=timeout_seconds)
        )
    ]
    return read_offsets(
        client,
        group,
        places,
        wants_earliest=lambda found: needs_earliest(trigger, found),
        timeout_seconds=timeout_seconds,
    )
