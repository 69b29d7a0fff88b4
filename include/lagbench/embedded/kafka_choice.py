"""Decide between the embedded broker and a cluster that the environment names."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from lagbench.adapters.kafka.client_settings import SERVERS, settings_of_connection
from lagbench.embedded.cache import write_atomically
from lagbench.embedded.ports import LOOPBACK, free_port, is_free
from lagbench.errors import WrongInput

SERVERS_VARIABLE = "KAFKA_BOOTSTRAP_SERVERS"
CONNECTION_VARIABLE = "AIRFLOW_CONN_KAFKA_DEFAULT"
PORT_VARIABLE = "LAGBENCH_KAFKA_PORT"


@dataclass(frozen=True, slots=True)
class ForeignCluster:
    """A Kafka that lagbench did not start."""

    settings: dict[str, str] = field(repr=False)  # may hold a password

    @property
    def bootstrap_servers(self) -> str:
        """Its addresses."""
        return self.settings[SERVERS]


def foreign_cluster(port_file: Path) -> ForeignCluster | None:
    """Return the cluster that KAFKA_BOOTSTRAP_SERVERS or the Airflow connection names.

    An earlier address of this state folder's own broker does not count: Airflow's processes have
    it in their environment, and they may start the bench again.
    """
    settings = named_settings()
    if settings is None:
        return None
    if settings[SERVERS] == f"{LOOPBACK}:{_remembered_port(port_file)}":
        return None
    return ForeignCluster(settings)


def embedded_port(port_file: Path) -> int:
    """Return the embedded broker's port: the requested one, the last one, or a free one.

    It stays the same across starts, so that addresses that others hold stay valid.
    """
    wanted = os.environ.get(PORT_VARIABLE)
    if wanted:
        if not re.fullmatch("[0-9]{1,5}", wanted) or not 1 <= int(wanted) <= 65_535:
            allowed = "a port number from 1 to 65535, or unset"
            raise WrongInput(
                where="environment", field=PORT_VARIABLE, value=wanted, allowed=allowed
            )
        port = int(wanted)
    else:
        remembered = _remembered_port(port_file)
        usable = remembered is not None and is_free(remembered)
        port = remembered if usable and remembered is not None else free_port()
    write_atomically(port_file, f"{port}\n")
    return port


def named_settings() -> dict[str, str] | None:
    """Return librdkafka's settings that the environment names; None: it names none.

    :raises WrongInput: the connection is not one of type ``kafka``, as JSON.
    """
    servers = os.environ.get(SERVERS_VARIABLE)
    if servers:
        return {SERVERS: servers}
    connection = os.environ.get(CONNECTION_VARIABLE, "")
    if not connection:
        return None
    return settings_of_connection(connection, where="environment", field=CONNECTION_VARIABLE)


def _remembered_port(port_file: Path) -> int | None:
    try:
        return int(port_file.read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None
