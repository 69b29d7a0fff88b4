"""Read the cluster of an object's offsets, and the authentication of its client."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, SecretStr

from lagbench.core.keda.triggers import (
    KafkaSecurity,
    TriggerSource,
    go_boolean,
    read_values,
    security_problems,
)
from lagbench.core.lag_scaler.iggy_address import (
    ALLOWED_ADDRESS,
    shown_address,
    split_iggy_address,
)
from lagbench.core.lag_scaler.lag_source import GroupTopic
from lagbench.core.lag_scaler.metadata_keys import (
    ENVIRONMENT_DEFAULTS,
    FROM_ENV,
    IGGY_LOGIN_DEFAULTS,
    KAFKA_LOGIN_DEFAULTS,
)
from lagbench.core.lag_scaler.metadata_reader import MetadataReader
from lagbench.shared_with_spark.kafka_options import CONFIG_VARIABLE

# No scheme, space or path: a client could take another host from it than the list of allowed ones.
_BROKER = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_KAFKA_PORT = 9092  # librdkafka's default
# Names are labels of metrics, so their length counts for each object.
_LONGEST_SERVERS = 1_000
_LONGEST_GROUP = 255
_LONGEST_TOPIC = 249  # Kafka's own limit
_AS_OWN = "as the lag scaler's own settings say, whose login is used"


class KafkaCluster(BaseModel):
    """A Kafka cluster; equal ones share a client and its batches.

    ``has_login_of_object``: the server's own login, which may be in a file, is not mixed into it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: tuple[str, ...]
    security: KafkaSecurity = KafkaSecurity()
    has_login_of_object: bool = False

    @property
    def servers(self) -> tuple[str, ...]:
        """Return its servers, each with a port."""
        return tuple(
            server if re.search(r":\d+$", server) else f"{server}:{_KAFKA_PORT}"
            for server in self.bootstrap_servers
        )

    @property
    def name(self) -> str:
        """Return the cluster's address for logs and snapshots; never a secret."""
        return f"kafka:{','.join(self.bootstrap_servers)}"


class IggyServer(BaseModel):
    """An Iggy server, with a login by username and password or by a personal access token.

    ``ca`` is PEM text; without one, TLS trusts the system's authorities.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    server_address: str
    username: str = ""
    password: SecretStr | None = None
    access_token: SecretStr | None = None
    is_tls: bool = False
    ca: str = ""

    @property
    def servers(self) -> tuple[str, ...]:
        """Return the server, with a port; none if the address is wrong."""
        parts = split_iggy_address(self.server_address)
        host, port = parts or ("", 0)
        return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",) if parts else ()

    @property
    def name(self) -> str:
        """Return the server's address for logs and snapshots; never a secret."""
        return f"iggy:{self.server_address}"


SourceAddress = KafkaCluster | IggyServer


def is_own_cluster(cluster: KafkaCluster, environment: Mapping[str, str]) -> bool:
    """Return whether the server's environment names this cluster, which alone gets its login."""
    return _is_own("bootstrapServers", cluster.bootstrap_servers, environment)


def allowed_servers_of(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return which servers objects may name: ``host:port``, a ``*`` stands for any characters.

    Those in ``text``, else the server's own (``KAFKA_BROKERS``, ``IGGY_ADDRESS``), else all.
    """
    own_kafka = _servers(environment.get(ENVIRONMENT_DEFAULTS["bootstrapServers"], ""))
    own_iggy = environment.get(ENVIRONMENT_DEFAULTS["serverAddress"], "").strip()
    own = (
        *KafkaCluster(bootstrap_servers=own_kafka).servers,
        *(IggyServer(server_address=own_iggy).servers if own_iggy else ()),
    )
    return _servers(text) or own or ("*",)


def read_source(reader: MetadataReader) -> tuple[SourceAddress, GroupTopic]:
    """Return the cluster and the group on it; missing values are noted in the reader."""
    if reader.choice("source", ("kafka", "iggy")) == "iggy":
        return _read_iggy(reader)
    return _read_kafka(reader)


def _read_kafka(reader: MetadataReader) -> tuple[KafkaCluster, GroupTopic]:
    servers = reader.required("bootstrapServers", longest=_LONGEST_SERVERS)
    logins = _logins(reader, "bootstrapServers", KAFKA_LOGIN_DEFAULTS)
    named = {name: reader.text(name) for name in ("tls", "sasl", "unsafeSsl")}
    found, problems = read_values(KafkaSecurity, TriggerSource(named, auth=logins))
    security = KafkaSecurity.model_validate(found)
    for name, problem in [*problems, *security_problems(security, logins)[:1]]:
        reader.refuse("tls, sasl", named["tls"] or named["sasl"], f"{name}: {problem}")
    pieces = _servers(servers)
    if servers and not (pieces and all(map(_BROKER.fullmatch, pieces))):
        reader.refuse("bootstrapServers", servers, "host:port, several separated by commas")
    cluster = KafkaCluster(
        bootstrap_servers=pieces,
        security=security,
        has_login_of_object=any(map(reader.given, KAFKA_LOGIN_DEFAULTS)),
    )
    _refuse_unless_allowed(reader, "bootstrapServers", cluster)
    if is_own_cluster(cluster, reader.environment) and not cluster.has_login_of_object:
        _refuse_weaker_than_own(reader)
    group = reader.required("consumerGroup", longest=_LONGEST_GROUP)
    return cluster, GroupTopic(group, reader.required("topic", longest=_LONGEST_TOPIC))


def _read_iggy(reader: MetadataReader) -> tuple[IggyServer, GroupTopic]:
    address = reader.required("serverAddress", longest=_LONGEST_SERVERS)
    if address and split_iggy_address(address) is None:
        reader.refuse("serverAddress", shown_address(address), ALLOWED_ADDRESS)
    login = _logins(reader, "serverAddress", IGGY_LOGIN_DEFAULTS)
    user, password, token = login["username"], login["password"], login["accessToken"]
    if token and (user or password):
        reader.refuse("accessToken", "", "either it or username and password, not both")
    elif not token and not (user and password):
        reader.refuse(
            "username" if password else "password",
            "",
            f"username and password{FROM_ENV}, or accessToken{FROM_ENV}",
        )
    # not find(): the default of "tls" is Kafka's
    own_tls = reader.environment.get("IGGY_TLS", "").strip()
    tls = reader.given("tls") or own_tls or "disable"
    is_own_login = bool(user or token) and not any(map(reader.given, IGGY_LOGIN_DEFAULTS))
    if tls not in {"enable", "disable"}:
        reader.refuse("tls", tls, "enable or disable")
    elif is_own_login and own_tls == "enable" != tls:
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
    _refuse_unless_allowed(reader, "serverAddress", server)
    stream, topic, group = (
        reader.required(name, longest=_LONGEST_GROUP)
        for name in ("streamId", "topicId", "consumerGroupId")
    )
    return server, GroupTopic(group, f"{stream}/{topic}")


def _refuse_unless_allowed(reader: MetadataReader, name: str, source: SourceAddress) -> None:
    """Only servers that the list allows are called: else any author could have any port tried."""
    for server in source.servers:
        if not any(
            re.fullmatch(".*".join(map(re.escape, allowed.split("*"))), server.lower())
            for allowed in reader.allowed_servers
        ):
            reader.refuse(name, server, "a server in the lag scaler's ALLOWED_BROKERS")


def _refuse_weaker_than_own(reader: MetadataReader) -> None:
    """Note what would send the server's own login over a weaker connection than its settings say.

    Those are variables, or a file, which names the mechanism and the protocol.
    """
    variables = {**ENVIRONMENT_DEFAULTS, **KAFKA_LOGIN_DEFAULTS}
    own = {name: reader.environment.get(key, "").strip() for name, key in variables.items()}
    has_file = bool(reader.environment.get(CONFIG_VARIABLE))
    if not (has_file or any(own[name] for name in KAFKA_LOGIN_DEFAULTS)):
        return
    if go_boolean(reader.given("unsafeSsl") or "false") and not go_boolean(own["unsafeSsl"]):
        reader.refuse("unsafeSsl", "true", f"false, {_AS_OWN}")
    sasl = reader.given("sasl")
    demands_tls = has_file or own["tls"] == "enable" or own["ca"] or own["cert"]
    lacks_tls = reader.given("tls") == "disable" or (sasl and reader.text("tls") != "enable")
    if demands_tls and lacks_tls:
        reader.refuse("tls", reader.text("tls"), f"enable, {_AS_OWN}")
    if sasl and own["sasl"] and sasl != own["sasl"]:
        reader.refuse("sasl", sasl, f"{own['sasl']} or nothing, {_AS_OWN}")


def _logins(reader: MetadataReader, address: str, defaults: Mapping[str, str]) -> dict[str, str]:
    """Return the parts of the login; the server's own ones only for the server's own address.

    An object that gives any part of a login gives all of it: parts of two are never mixed.
    """
    brings_own = any(reader.given(name) for name in defaults)
    servers = _servers(reader.find(address) or "")
    may_default = not brings_own and _is_own(address, servers, reader.environment)
    return {
        name: reader.login(name, variable if may_default else None)
        for name, variable in defaults.items()
    }


def _is_own(key: str, servers: tuple[str, ...], environment: Mapping[str, str]) -> bool:
    """Return whether the environment's default of an address is these servers, in any order."""
    own = _servers(environment.get(ENVIRONMENT_DEFAULTS[key], ""))
    return bool(own) and set(own) == set(servers)


def _servers(text: str) -> tuple[str, ...]:
    """Return the servers in one order and case: equal ones share a client."""
    return tuple(sorted({piece.strip().lower() for piece in text.split(",") if piece.strip()}))
