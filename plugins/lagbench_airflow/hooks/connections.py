"""Read Airflow's connections."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from lagbench.errors import NotReady

EXAMPLES = {
    "kafka": 'extra {"bootstrap.servers": "HOST:PORT"}',
    "kubernetes": 'extra {"kube_config_path": "PATH"}',
    "spark": 'host "local[2]", spark://HOST:PORT or k8s://https://HOST:PORT',
}


def connection(name: str, sort: str) -> Any:
    """Return a connection of a sort: kafka, kubernetes or spark."""
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException as error:
        raise NotReady(
            f"the connection {name} is not defined. Bring the bench up (lagbench up) and start "
            f"Airflow through lagbench (make ui, lagbench run), or define it with {EXAMPLES[sort]}"
        ) from error
