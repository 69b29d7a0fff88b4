"""The name of an Airflow: made once per state folder, no other's."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from lagbench.adapters.kube.lease_holder import HOLDER_VARIABLE, stored_holder
from lagbench.errors import NotReady


@pytest.fixture(autouse=True)
def no_name_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no name come from the environment."""
    monkeypatch.delenv(HOLDER_VARIABLE, raising=False)


def test_a_state_folder_keeps_its_name(tmp_path: Path) -> None:
    """The same folder has the same name, which tells the host; another folder has another."""
    here, there = tmp_path / "here", tmp_path / "there"

    name = stored_holder(here)

    assert name.startswith(f"{socket.gethostname()}-")
    assert stored_holder(here) == name
    assert stored_holder(there) != name


def test_a_name_in_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's tasks would read it too."""
    monkeypatch.setenv(HOLDER_VARIABLE, "the-team")

    assert stored_holder(tmp_path) == "the-team"
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_no_name(tmp_path: Path) -> None:
    """An empty holder would be nobody's Lease."""
    (tmp_path / "lease-holder").touch()

    with pytest.raises(NotReady, match="lease-holder"):
        stored_holder(tmp_path)
