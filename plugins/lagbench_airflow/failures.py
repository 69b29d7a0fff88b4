"""lagbench's two families of errors in Airflow's terms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from airflow.sdk.exceptions import AirflowFailException

from lagbench.errors import PodsEnded, PodsRefused, WrongInput


@contextlib.contextmanager
def wrong_input_is_final() -> Iterator[None]:
    """Fail without retries on wrong input and pods that cannot work; NotReady is retried."""
    try:
        yield
    except (WrongInput, PodsRefused, PodsEnded) as error:
        raise AirflowFailException(str(error)) from error
