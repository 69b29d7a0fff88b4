"""The name of an Airflow of one's own, in its database."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes import airflow_home  # noqa: F401 - before anything of Airflow

from lagbench.adapters.kube.lease_holder import HOLDER_NAME, HOLDER_VARIABLE
from lagbench_airflow import lease_holder as plugin


class FakeVariable:
    """Airflow's Variables in memory."""

    stored: dict[str, str]

    @classmethod
    def get(cls, key: str, default: Any) -> Any:
        """Return what is stored."""
        return cls.stored.get(key, default)

    @classmethod
    def set(cls, key: str, value: str, description: str) -> None:
        """Store it."""
        cls.stored[key] = value


def test_it_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first task of all stores it, later ones find it, on whatever host."""
    FakeVariable.stored = {}
    monkeypatch.setattr(plugin, "Variable", FakeVariable)

    name = plugin.lease_holder()

    assert FakeVariable.stored == {HOLDER_NAME: name}
    assert plugin.lease_holder() == name


def test_an_airflow_of_lagbench_has_it_in_its_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow itself reads the Variable from there: nothing is written."""
    monkeypatch.setenv(HOLDER_VARIABLE, "laptop-1a2b3c4d")

    assert plugin.lease_holder() == "laptop-1a2b3c4d"
