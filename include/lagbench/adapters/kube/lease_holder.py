"""The name by which an Airflow holds a cluster's Lease: the same for all its runs, of no other's.

An Airflow that lagbench starts has a state folder, and the name lies there. One of your own has a
database: its tasks, on whatever host, share an Airflow Variable.
"""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

from lagbench.errors import NotReady
from lagbench.project import make_state_dir

HOLDER_NAME = "lagbench_lease_holder"
"""The Airflow Variable."""
HOLDER_VARIABLE = f"AIRFLOW_VAR_{HOLDER_NAME.upper()}"
"""The same as Airflow reads it from its environment."""


def new_holder() -> str:
    """Return a unique name that shows where it was created."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def stored_holder(state_dir: Path) -> str:
    """Return the name of the Airflow of a state folder; it is made once.

    One in the environment wins, as it does in Airflow.

    :raises NotReady: the file that keeps it is empty.
    """
    given = os.environ.get(HOLDER_VARIABLE)
    if given:
        return given
    path = state_dir / "lease-holder"
    make_state_dir(state_dir)
    with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        file.write(new_holder())
    found = path.read_text(encoding="utf-8").strip()
    if not found:
        raise NotReady(f"{path} is empty: the disk was full when it was created. Delete it")
    return found
