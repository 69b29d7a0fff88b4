"""A home for each module's rehearsals, with everything ended at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rehearsal import Rehearsal


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Provide an empty home: no bench, no Airflow database, no runs."""
    home = Rehearsal(tmp_path_factory.mktemp("home"))
    yield home
    home.close()
