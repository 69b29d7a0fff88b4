"""Define the source of offsets: one batch per cluster and sampling interval, for all objects."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, SecretStr

from lagbench.core.keda.triggers.kafka_parameters import KafkaSecurity

# The offset of a partition without a commit, and of a log start that was not requested.
NO_OFFSET = -1

PartitionIds = npt.NDArray[np.int32]

Offsets = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class GroupTopic:
    """One consumer group on one topic; for Iggy the topic is written ``<stream>/<topic>``."""

    group: str
    topic: str


@dataclass(frozen=True, slots=True, eq=False)
class GroupSample:
    """Offsets of all partitions of one group and topic at one instant (unix ns).

    ``partitions``: ascending, without repeats; the other arrays have its length and order.
    ``end``: the offset that the next record will get. ``committed``: the next record to be read;
    below 0 when the group has none (librdkafka reports -1001). ``earliest``: the first offset still
    in the log, where ``committed`` is below 0 or may lie before it; -1 where it was not requested,
    None if it was requested nowhere.
    ``error``: not empty when the read failed; the arrays are then invalid and may be empty.
    """

    at_ns: int
    partitions: PartitionIds
    end: Offsets
    committed: Offsets
    earliest: Offsets | None = None
    error: str = ""


class LagSource(Protocol):
    """One cluster's offsets, for all requested groups at once."""

    def sample(self, wanted: Sequence[GroupTopic]) -> Mapping[GroupTopic, GroupSample]:
        """Return a sample for each requested group and topic; a failed one has an ``error``."""
        ...

    def close(self) -> None:
        """Close the connection; may be called twice."""
        ...


def failed_sample(at_ns: int, error: str) -> GroupSample:
    """Return the sample of a failed read: no offsets, and the error."""
    nothing = np.empty(0, dtype=np.int64)
    return GroupSample(at_ns, np.empty(0, dtype=np.int32), nothing, nothing, error=error)


KAFKA_SERVERS, IGGY_SERVER = "KAFKA_BROKERS", "IGGY_ADDRESS"
"""Variables of the server's own cluster."""

# No scheme, space, path or zero byte: a client could take another host from it than the list of
# allowed ones.
BROKER = re.compile(r"(?:\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::[0-9]{1,5})?")

_IGGY_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")

_KAFKA_PORT, _IGGY_PORT = 9092, 8090


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

    def is_own(self, environment: Mapping[str, str]) -> bool:
        """Return whether the server's environment names this cluster, which alone gets its login.

        The order of its servers does not matter.
        """
        own = listed(environment.get(KAFKA_SERVERS, ""))
        return bool(own) and set(own) == set(self.bootstrap_servers)


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
