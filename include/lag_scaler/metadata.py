"""Read and check a ScaledObject's metadata for the lag scaler, once.

A value is looked up under its own name, under ``<name>FromEnv`` (where KEDA has put the resolved
value), then in the server's environment; else the default of ``LagRule`` applies. A key that
is almost one of the known ones is rejected, because a misspelt limit would silently be its default.
Any other unknown key is kept in ``unknown_keys`` for a warning.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from lag_scaler.addresses import (
    BROKER,
    IggyServer,
    KafkaCluster,
    KafkaLogin,
    SourceAddress,
    is_allowed,
    listed,
    split_iggy_address,
)
from lag_scaler.keda_values import go_boolean, normalize_metric_name
from lag_scaler.offsets import GroupTopic
from lag_scaler.rule import LagRule
from pod_program.errors import WrongInput
from pod_program.kafka_config import CONFIG_VARIABLE, PASSWORD_MECHANISMS
from pod_program.shown import cut

FROM_ENV = "FromEnv"
_RULE_KEYS = tuple(
    str(field.alias) for name, field in LagRule.model_fields.items() if name != "wakes_for_backlog"
)
# The original's variables are defaults of missing metadata.
_VARIABLES: Mapping[str, str] = {
    "source": "LAG_SOURCE",
    "bootstrapServers": "KAFKA_BROKERS",
    "topic": "KAFKA_TOPIC",
    "consumerGroup": "KAFKA_GROUP_ID",
    "tls": "KAFKA_TLS",
    "sasl": "KAFKA_SASL",
    "unsafeSsl": "KAFKA_UNSAFE_SSL",
    "serverAddress": "IGGY_ADDRESS",
    "streamId": "IGGY_STREAM_ID",
    "topicId": "IGGY_TOPIC_ID",
    "consumerGroupId": "IGGY_CONSUMER_GROUP_ID",
    **{key: re.sub("(?=[A-Z])", "_", key).upper() for key in _RULE_KEYS},
}
# Logins of the server itself. They are sent only to the address in the server's own
# environment: else any author of a ScaledObject could have them sent to a host of their choice.
_KAFKA_LOGIN: Mapping[str, str] = {
    "username": "KAFKA_USERNAME",
    "password": "KAFKA_PASSWORD",
    "ca": "KAFKA_CA",
    "cert": "KAFKA_CERT",
    "key": "KAFKA_KEY",
    "keyPassword": "KAFKA_KEY_PASSWORD",
}
_IGGY_LOGIN: Mapping[str, str] = {
    "username": "IGGY_USERNAME",
    "password": "IGGY_PASSWORD",
    "accessToken": "IGGY_ACCESS_TOKEN",
    "ca": "IGGY_CA",
}
# Only by reference: <name>FromEnv, which KEDA resolves before it calls the scaler.
SECRET_KEYS = ("password", "accessToken", "key", "keyPassword")
# Read by KEDA itself, or by its kafka trigger: a switch between the two must not fail on them.
_KEDA_KEYS = (
    *("scalerAddress", "enableTLS", "tlsCertFile", "caCert", "tlsClientCert", "tlsClientKey"),
    *("fullMetadata", "version"),
)
_KNOWN_KEYS = frozenset((*_VARIABLES, *_KAFKA_LOGIN, *_IGGY_LOGIN, *_KEDA_KEYS))
_MOST_KEYS = 100  # twice as many as there are; each unknown one is compared with all known ones
# Names are labels of metrics, so their length counts for each object.
_LONGEST = {"bootstrapServers": 1_000, "serverAddress": 1_000, "topic": 249}
_LONGEST_NAME = 255
# A message goes to KEDA's log and into the status of an object; gRPC's headers hold 8 KB.
_SHOWN_PROBLEMS = 5
_AS_OWN = "as the lag scaler's own settings say, whose login is used"


class MetadataProblem(NamedTuple):
    """One field that cannot be used: its value as written (never a secret) and what is allowed."""

    field: str
    value: str
    allowed: str


class InvalidMetadata(WrongInput):
    """Metadata that the scaler rejects; ``problems`` lists every field, not only the first."""

    def __init__(self, problems: Sequence[MetadataProblem]) -> None:
        """Show all problems; ``field``, ``value`` and ``allowed`` are those of the first."""
        super().__init__(where="scaler metadata", **problems[0]._asdict())
        self.problems = tuple(problems)

    def __str__(self) -> str:
        """Return one sentence for each of the first problems; long values are cut."""
        said = [
            f"{cut(name)} = {cut(value)!r} is not allowed; allowed: {allowed}"
            for name, value, allowed in self.problems[:_SHOWN_PROBLEMS]
        ]
        more = len(self.problems) - len(said)
        return "scaler metadata: " + "; ".join([*said, *([f"{more} more"] if more else [])])

    def __reduce__(self) -> tuple[object, ...]:
        """Support pickling."""
        return (InvalidMetadata, (self.problems,))


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
    reader = _Reader(metadata, environment or {}, tuple(allowed_servers))
    if len(metadata) > _MOST_KEYS:
        reader.refuse("metadata", f"{len(metadata)} keys", f"at most {_MOST_KEYS} keys")
        raise InvalidMetadata(reader.problems)
    unknown = sorted(key for key in metadata if key.removesuffix(FROM_ENV) not in _KNOWN_KEYS)
    for key in unknown:
        meant = _near_miss(key)
        if meant is not None:
            value = "(not shown)" if meant in SECRET_KEYS else metadata[key]
            reader.refuse(key, value, f"did you mean {meant}?")
    for name in SECRET_KEYS:
        if metadata.get(name, "").strip():
            text = f"{name}{FROM_ENV}: the name of a container variable from a Secret"
            reader.refuse(name, "", text)
    kind = reader.choice("source", "kafka", "iggy")
    source, group_topic = _read_iggy(reader) if kind == "iggy" else _read_kafka(reader)
    rule = _read_rule(reader, is_iggy=kind == "iggy")
    if reader.problems or rule is None:
        raise InvalidMetadata(reader.problems)
    return LagSettings(
        source=source, group_topic=group_topic, rule=rule, unknown_keys=tuple(unknown)
    )


def _near_miss(key: str) -> str | None:
    """Return the known key that ``key`` is most likely a misspelling of; None when none is near.

    0.84 is the highest limit that still catches one wrong, missing or doubled letter in ``topic``
    and words such as ``sustainSec``; names of other tools stay below it.
    """
    by_lower = {known.lower(): known for known in _KNOWN_KEYS}
    bare = key.removesuffix(FROM_ENV).lower().replace("_", "").replace("-", "")
    close = get_close_matches(bare, by_lower, n=1, cutoff=0.84)
    return by_lower[close[0]] if close else None


@dataclass(slots=True)
class _Reader:
    """Looks one object's values up and notes the unusable ones."""

    metadata: Mapping[str, str]
    environment: Mapping[str, str]
    allowed_servers: tuple[str, ...]
    problems: list[MetadataProblem] = field(default_factory=list)

    def refuse(self, name: str, value: str, allowed: str) -> None:
        """Note one more problem; the value of a secret is not kept."""
        shown = "(not shown)" if name in SECRET_KEYS else value
        self.problems.append(MetadataProblem(name, shown, allowed))

    def given(self, name: str) -> str:
        """Return the value as the object itself gives it, trimmed; empty: it does not."""
        return self.metadata.get(name, "").strip() or self.metadata.get(name + FROM_ENV, "").strip()

    def own(self, variable: str) -> str:
        """Return a variable of the server."""
        return self.environment.get(variable, "").strip()

    def find(self, name: str) -> str:
        """Return the value given, else the server's default for all objects."""
        return self.given(name) or self.own(_VARIABLES[name])

    def choice(self, name: str, *allowed: str, value: str | None = None) -> str:
        """Return one of the allowed values, the first if none is given."""
        found = (self.find(name) if value is None else value) or allowed[0]
        if found not in allowed:
            self.refuse(name, found, " or ".join(allowed))
        return found

    def required(self, name: str) -> str:
        """Return a required text; empty: it was refused."""
        value, longest = self.find(name), _LONGEST.get(name, _LONGEST_NAME)
        if len(value) > longest:
            self.refuse(name, value, f"at most {longest} characters")
            return ""
        if not value:
            place = f"a value here, in {name}{FROM_ENV} or in the server's {_VARIABLES[name]}"
            self.refuse(name, "", place)
        return value

    def login(self, variables: Mapping[str, str], *, is_own: bool) -> dict[str, str]:
        """Return the parts of a login, secrets by reference only.

        The server's own ones only for the server's own address. An object that gives any part of a
        login gives all of it: parts of two are never mixed.
        """
        may_default = is_own and not any(map(self.given, variables))
        found = {}
        for name, variable in variables.items():
            secret = self.metadata.get(name + FROM_ENV, "").strip()
            value = secret if name in SECRET_KEYS else self.given(name)
            found[name] = value or (self.own(variable) if may_default else "")
        return found

    def refuse_unless_allowed(self, name: str, source: SourceAddress) -> None:
        """Note the servers that objects may not name."""
        for server in source.servers:
            if not is_allowed(server, self.allowed_servers):
                self.refuse(name, server, "a server in the lag scaler's ALLOWED_BROKERS")


def _read_kafka(reader: _Reader) -> tuple[KafkaCluster, GroupTopic]:
    servers = reader.required("bootstrapServers")
    pieces = listed(servers)
    is_own = KafkaCluster(bootstrap_servers=pieces).is_own(reader.environment)
    given = reader.login(_KAFKA_LOGIN, is_own=is_own)
    tls = reader.choice("tls", "disable", "enable")
    sasl = reader.choice("sasl", "none", *PASSWORD_MECHANISMS)
    is_unsafe = go_boolean(reader.find("unsafeSsl") or "false")
    if is_unsafe is None:
        reader.refuse("unsafeSsl", reader.find("unsafeSsl"), "true or false")
    login = KafkaLogin(
        is_tls=tls == "enable",
        skips_verification=bool(is_unsafe),
        sasl=sasl,
        username=given["username"],
        password=SecretStr(given["password"]),
        ca=given["ca"],
        cert=given["cert"],
        key=SecretStr(given["key"]),
        key_password=SecretStr(given["keyPassword"]),
    )
    if missing := login.problem():
        reader.refuse("tls, sasl", tls if sasl == "none" else sasl, ": ".join(missing))
    if servers and not (pieces and all(map(BROKER.fullmatch, pieces))):
        reader.refuse("bootstrapServers", servers, "host:port, several separated by commas")
    has_login = any(map(reader.given, _KAFKA_LOGIN))
    cluster = KafkaCluster(bootstrap_servers=pieces, login=login, has_login_of_object=has_login)
    reader.refuse_unless_allowed("bootstrapServers", cluster)
    if is_own and not has_login:
        _refuse_weaker_than_own(reader)
    group = reader.required("consumerGroup")
    return cluster, GroupTopic(group, reader.required("topic"))


def _refuse_weaker_than_own(reader: _Reader) -> None:
    """Note what would send the server's own login over a weaker connection than its settings say.

    Those are variables, or a file, which names the mechanism and the protocol.
    """
    own = {key: reader.own(name) for key, name in {**_VARIABLES, **_KAFKA_LOGIN}.items()}
    has_file = bool(reader.environment.get(CONFIG_VARIABLE))
    if not (has_file or any(own[name] for name in _KAFKA_LOGIN)):
        return
    if go_boolean(reader.given("unsafeSsl") or "false") and not go_boolean(own["unsafeSsl"]):
        reader.refuse("unsafeSsl", "true", f"false, {_AS_OWN}")
    sasl, tls = reader.given("sasl"), reader.find("tls")
    demands_tls = has_file or own["tls"] == "enable" or own["ca"] or own["cert"]
    if demands_tls and (reader.given("tls") == "disable" or (sasl and tls != "enable")):
        reader.refuse("tls", tls, f"enable, {_AS_OWN}")
    if sasl and own["sasl"] and sasl != own["sasl"]:
        reader.refuse("sasl", sasl, f"{own['sasl']} or nothing, {_AS_OWN}")


def _read_iggy(reader: _Reader) -> tuple[IggyServer, GroupTopic]:
    address = reader.required("serverAddress")
    if address and split_iggy_address(address) is None:
        shown = "(hidden)" if "@" in address else address  # a password may precede the @
        reader.refuse("serverAddress", shown, "host:port without scheme and credentials")
    is_own = IggyServer(server_address=address).is_own(reader.environment)
    login = reader.login(_IGGY_LOGIN, is_own=is_own)
    user, password, token = login["username"], login["password"], login["accessToken"]
    both = f"username and password{FROM_ENV}, or accessToken{FROM_ENV}, not both"
    if token and (user or password):
        reader.refuse("accessToken", "", both)
    elif not token and not (user and password):
        reader.refuse("username" if password else "password", "", both)
    for name, text in login.items():
        if name != "ca" and len(text.encode()) > _LONGEST_NAME:  # the protocol counts in one byte
            reader.refuse(name, "", f"at most {_LONGEST_NAME} bytes")
    own_tls = reader.own("IGGY_TLS")  # the default of "tls" elsewhere is Kafka's
    tls = reader.choice("tls", "disable", "enable", value=reader.given("tls") or own_tls)
    is_own_login = bool(user or token) and not any(map(reader.given, _IGGY_LOGIN))
    if tls == "disable" and is_own_login and own_tls == "enable":
        reader.refuse("tls", tls, f"enable, {_AS_OWN}")
    elif tls == "disable" and login["ca"]:
        reader.refuse("tls", tls, "enable, when there is a ca")
    server = IggyServer(
        server_address=address,
        username=user,
        password=SecretStr(password) if password else None,
        access_token=SecretStr(token) if token else None,
        is_tls=tls == "enable",
        ca=login["ca"],
    )
    reader.refuse_unless_allowed("serverAddress", server)
    stream, topic, group = map(reader.required, ("streamId", "topicId", "consumerGroupId"))
    return server, GroupTopic(group, f"{stream}/{topic}")


def _read_rule(reader: _Reader, *, is_iggy: bool) -> LagRule | None:
    """Return the rule; None: a value of it is not allowed, alone or together with another."""
    found = {name: value for name in _RULE_KEYS if (value := reader.find(name))}
    try:
        rule = LagRule.model_validate(found)
    except ValidationError as error:
        for wrong in error.errors():
            name, text = str(wrong["loc"][0]), wrong["msg"]
            reader.refuse(name, found[name], text.removeprefix("Input should be "))
        return None
    span, interval = rule.window_span_seconds, rule.sampling_interval_seconds
    alone = "false together with limitToPartitionsWithLag"
    if rule.limit_to_partitions_with_lag and rule.allow_idle_consumers:
        reader.refuse("allowIdleConsumers", "true", alone)
    if rule.limit_to_partitions_with_lag and rule.ensure_even_distribution_of_partitions:
        reader.refuse("ensureEvenDistributionOfPartitions", "true", alone)
    if rule.lag_metric == "seconds" and rule.lag_threshold > span - interval:
        text = (
            f"up to {math.floor(span - interval)} with lagMetric seconds: ages are known only "
            "within the window, (windowSize - 2) x samplingInterval"
        )
        reader.refuse("lagThreshold", str(rule.lag_threshold), text)
    if span < rule.sustain_seconds:
        text = (
            f"at least {math.ceil(rule.sustain_seconds / interval) + 1}: (windowSize - 1) x "
            f"samplingInterval ({span:g} s) must reach sustainSeconds ({rule.sustain_seconds:g}), "
            "else no lag ever counts as persistent"
        )
        reader.refuse("windowSize", str(rule.window_size), text)
    wakes = rule.scale_to_zero_on_invalid_offset and is_iggy
    return rule.model_copy(update={"wakes_for_backlog": wakes})
