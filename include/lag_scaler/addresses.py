"""Where offsets are read: the clusters and servers that an object may name, and their logins."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, SecretStr

from pod_program.kafka_config import login_settings, password_login

KAFKA_SERVERS, IGGY_SERVER = "KAFKA_BROKERS", "IGGY_ADDRESS"
"""Variables of the server's own cluster."""
# No scheme, space, path or zero byte: a client could take another host from it than the list of
# allowed ones.
BROKER = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")
_IGGY_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")
_KAFKA_PORT, _IGGY_PORT = 9092, 8090


class _Address(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KafkaLogin(_Address):
    """TLS and SASL as an object, or the server's own variables, state them; texts are PEM."""

    is_tls: bool = False
    skips_verification: bool = False
    ca: str = ""
    cert: str = ""
    key: SecretStr = SecretStr("")
    key_password: SecretStr = SecretStr("")
    sasl: str = "none"
    username: str = ""
    password: SecretStr = SecretStr("")

    def problem(self) -> tuple[str, str] | None:
        """Return the first part that is missing, and why it is needed."""
        rules = (
            (self.is_tls and self.cert and not self.key, "key", "required with cert"),
            (self.is_tls and self.key and not self.cert, "cert", "required with key"),
            (self.sasl != "none" and not self.username, "username", "required"),
            (self.sasl != "none" and not self.password, "password", "required"),
        )
        return next(((name, why) for is_broken, name, why in rules if is_broken), None)

    def settings(self) -> dict[str, object]:
        """Return librdkafka's settings; they hold secrets."""
        return login_settings(
            is_tls=self.is_tls,
            skips_verification=self.skips_verification,
            pem={
                "ca": self.ca,
                "certificate": self.cert,
                "key": self.key.get_secret_value(),
                "password": self.key_password.get_secret_value(),
            },
            sasl=None
            if self.sasl == "none"
            else password_login(self.sasl, self.username, self.password.get_secret_value()),
        )


class KafkaCluster(_Address):
    """A Kafka cluster; equal ones share a client and its batches.

    ``has_login_of_object``: the server's own login, which may be in a file, is not mixed into it.
    """

    bootstrap_servers: tuple[str, ...]
    login: KafkaLogin = KafkaLogin()
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

    def is_own(self, environment: Mapping[str, str]) -> bool:
        """Return whether the server's environment names this cluster, which alone gets its login.

        The order of its servers does not matter.
        """
        own = listed(environment.get(KAFKA_SERVERS, ""))
        return bool(own) and set(own) == set(self.bootstrap_servers)

    def client_settings(self, environment: Mapping[str, str]) -> dict[str, object]:
        """Return the settings of its client; those in a file only for the server's own cluster.

        The file is the login of the server: any author of a ScaledObject names a cluster. It wins
        over what the object states, and is not mixed with a login of the object.
        """
        from pod_program.kafka_settings import SERVERS, own_settings  # loads librdkafka

        servers = ",".join(self.bootstrap_servers)
        is_own = self.is_own(environment) and not self.has_login_of_object
        is_stated = self.login.sasl != "none" or self.login.is_tls
        return {
            **(self.login.settings() if is_stated else {}),
            **(own_settings(servers, environment) if is_own else {SERVERS: servers}),
        }


class IggyServer(_Address):
    """An Iggy server, with a login by username and password or by a personal access token.

    ``ca`` is PEM text; without one, TLS trusts the system's authorities.
    """

    server_address: str
    username: str = ""
    password: SecretStr | None = None
    access_token: SecretStr | None = None
    is_tls: bool = False
    ca: str = ""

    @property
    def servers(self) -> tuple[str, ...]:
        """Return its address with a port; nothing for one that is none."""
        parts = split_iggy_address(self.server_address)
        host, port = parts or ("", 0)
        return (f"[{host}]:{port}" if ":" in host else f"{host}:{port}",) if parts else ()

    @property
    def name(self) -> str:
        """Return the server's address for logs and snapshots; never a secret."""
        return f"iggy:{self.server_address}"

    def is_own(self, environment: Mapping[str, str]) -> bool:
        """Return whether the lag scaler's environment names this server."""
        own = listed(environment.get(IGGY_SERVER, ""))
        return bool(own) and own == listed(self.server_address)


SourceAddress = KafkaCluster | IggyServer


def split_iggy_address(text: str) -> tuple[str, int] | None:
    """Return (host, port) of ``host``, ``host:port`` or ``[v6]:port``; None if it is neither."""
    host, port = text, str(_IGGY_PORT)
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        if rest:
            port = rest.removeprefix(":") if rest.startswith(":") else "?"
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    is_port = port.isascii() and port.isdigit() and 1 <= int(port) <= 65_535
    return (host, int(port)) if _IGGY_HOST.fullmatch(host) and is_port else None


def allowed_servers_of(text: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return which servers objects may name: ``host:port``, a ``*`` stands for any characters.

    Those in ``text``, else the server's own (``KAFKA_BROKERS``, ``IGGY_ADDRESS``), else all.
    """
    kafka = KafkaCluster(bootstrap_servers=listed(environment.get(KAFKA_SERVERS, "")))
    iggy = IggyServer(server_address=environment.get(IGGY_SERVER, "").strip())
    return listed(text) or (*kafka.servers, *iggy.servers) or ("*",)


def is_allowed(server: str, allowed_servers: tuple[str, ...]) -> bool:
    """Return whether the list allows a server: else any author could have any port tried."""
    return any(
        re.fullmatch(".*".join(map(re.escape, allowed.split("*"))), server.lower())
        for allowed in allowed_servers
    )


def listed(text: str) -> tuple[str, ...]:
    """Return servers separated by commas, in one order and case: equal ones share a client."""
    return tuple(sorted({piece.strip().lower() for piece in text.split(",") if piece.strip()}))
