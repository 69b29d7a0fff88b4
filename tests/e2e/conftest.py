"""A home for each module's rehearsals, with everything ended at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.rehearsal import Rehearsal
from tests.fakes.migrated_database import give_database


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Provide a home as after `make install`: a migrated database, no bench, no runs."""
    home = Rehearsal(tmp_path_factory.mktemp("home"))
    give_database(home.root / "state")
    yield home
    home.close()
