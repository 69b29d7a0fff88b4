"""The environment of a user's shell: without what tests set for an Airflow in their own process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def user_environment() -> dict[str, str]:
    """Return this process's environment without its Airflow variables.

    ``tests.fakes.airflow_home`` sets them as soon as a test module is collected, also for all other
    tests of the process. A home that inherited them would use another home's database.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW_")}


@contextmanager
def as_a_user() -> Iterator[None]:
    """Hide this process's Airflow variables from code that reads ``os.environ``."""
    kept = dict(os.environ)
    for name in kept.keys() - user_environment().keys():
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(kept)
