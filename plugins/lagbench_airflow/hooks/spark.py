"""Find where Spark runs, from the Spark provider's connection with our settings in its extra."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lagbench.core.cluster.spark_connection import SparkPlace, SparkSettings, check_fit, place_of
from lagbench.errors import WrongInput
from lagbench_airflow.hooks.kafka import connection


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """A connection that was read and found consistent."""

    where: str
    master: str
    place: SparkPlace
    namespace: str | None
    settings: SparkSettings

    @classmethod
    def read(cls, spark_conn_id: str) -> SparkTarget:
        """Read the connection; the provider would silently use YARN if it is missing."""
        found = connection(spark_conn_id, "spark")
        where = f"connection {spark_conn_id}"
        extra = found.extra_dejson
        master = _master(found)
        place = place_of(where, master)
        settings = SparkSettings.read(where, extra)
        check_fit(where, place, settings, deploy_mode=extra.get("deploy-mode"))
        if settings.kubeconfig is not None and not Path(settings.kubeconfig).is_file():
            raise WrongInput(
                where=where,
                field="lagbench_kubeconfig",
                value=settings.kubeconfig,
                allowed="the path of a kubeconfig on this machine",
            )
        return cls(where, master, place, extra.get("namespace") or None, settings)


def _master(connection: Any) -> str:
    """Return the master as the provider builds it: the type is the scheme of a URI."""
    host, port = connection.host or "", connection.port
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not port)
    master = host if is_whole else f"{connection.conn_type}://{host}"
    return f"{master}:{port}" if port else master
