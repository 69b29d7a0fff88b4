"""Read the cluster of an object's offsets, and the authentication of its client."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, SecretStr

from lagbench.core.keda.triggers import (
    KafkaSecurity,
    ParameterReader,
    ParameterSources,
    check_security,
    read_security,
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


class KafkaCluster(BaseModel):
    """A Kafka cluster; equal ones share a client and its batches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: tuple[str, ...]
    security: KafkaSecurity = KafkaSecurity()

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
    def name(self) -> str:
        """Return the server's address for logs and snapshots; never a secret."""
        return f"iggy:{self.server_address}"


SourceAddress = KafkaCluster | IggyServer


def is_own_cluster(cluster: KafkaCluster, environment: Mapping[str, str]) -> bool:
    """Return whether the server's environment names this cluster, which alone gets its login."""
    return _is_own("bootstrapServers", cluster.bootstrap_servers, environment)


def read_source(reader: MetadataReader) -> tuple[SourceAddress, GroupTopic]:
    """Return the cluster and the group on it; missing values are noted in the reader."""
    if reader.choice("source", ("kafka", "iggy")) == "iggy":
        return _read_iggy(reader)
    return _read_kafka(reader)


def _read_kafka(reader: MetadataReader) -> tuple[KafkaCluster, GroupTopic]:
    servers = reader.required("bootstrapServers")
    logins = _logins(reader, "bootstrapServers", KAFKA_LOGIN_DEFAULTS)
    named = {name: reader.text(name) for name in ("tls", "sasl", "unsafeSsl")}
    parameters = ParameterReader(ParameterSources(named, auth=logins))
    security = read_security(parameters)
    problem = check_security(security, logins)
    for message in [*parameters.errors, *([problem] if problem else [])]:
        reader.refuse("tls, sasl", named["tls"] or named["sasl"], message)
    pieces = _servers(servers)
    if servers and not pieces:
        reader.refuse("bootstrapServers", servers, "host:port, several separated by commas")
    cluster = KafkaCluster(bootstrap_servers=pieces, security=security)
    return cluster, GroupTopic(reader.required("consumerGroup"), reader.required("topic"))


def _read_iggy(reader: MetadataReader) -> tuple[IggyServer, GroupTopic]:
    address = reader.required("serverAddress")
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
    tls = reader.given("tls") or reader.environment.get("IGGY_TLS", "").strip() or "disable"
    if tls not in {"enable", "disable"}:
        reader.refuse("tls", tls, "enable or disable")
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
    topic = f"{reader.required('streamId')}/{reader.required('topicId')}"
    return server, GroupTopic(reader.required("consumerGroupId"), topic)


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
    return tuple(piece.strip() for piece in text.split(",") if piece.strip())
