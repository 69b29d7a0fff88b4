"""lagbench's two families of errors in Airflow's terms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow.sdk.exceptions import AirflowFailException

from lagbench.errors import PodsRefused, WrongInput


@contextlib.contextmanager
def wrong_input_is_final() -> Iterator[None]:
    """Fail without retries on wrong input and refused pods; NotReady passes and is retried."""
    try:
        yield
    except (WrongInput, PodsRefused) as error:
        raise AirflowFailException(str(error)) from error
