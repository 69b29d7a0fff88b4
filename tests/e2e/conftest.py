"""A home for each module's rehearsals, with everything ended at the end."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.e2e.rehearsal import Rehearsal

# A shell starts background jobs with SIGINT ignored, and children inherit that: then no Ctrl-C of
# these tests would reach the command. A handler of our own is reset to the default in each child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Provide an empty home: no bench, no Airflow database, no runs."""
    home = Rehearsal(tmp_path_factory.mktemp("home"))
    yield home
    home.close()
