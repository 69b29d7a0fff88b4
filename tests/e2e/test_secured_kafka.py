"""A rehearsal against a Kafka with TLS, client certificates and SCRAM, with an own consumer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.rehearsal import DATA, POLICY, Rehearsal
from tests.integration.secured_broker import PASSWORD, secured_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
SCENARIO = DATA / "scenarios" / "tiny_secured.yaml"


@pytest.fixture(scope="module")
def secured(rehearsal: Rehearsal, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rehearsal]:
    """Provide a home whose Kafka is a secured one that lagbench did not start."""
    folder = tmp_path_factory.mktemp("secured")
    with secured_broker(folder / "broker") as running:
        extra = running.tls_settings(folder)
        connection = json.dumps({"conn_type": "kafka", "extra": extra})
        rehearsal.variables["AIRFLOW_CONN_KAFKA_DEFAULT"] = connection
        yield rehearsal


def test_an_own_consumer_logs_in_and_each_message_is_accounted_for(secured: Rehearsal) -> None:
    """All parts and the consumer log in; no file of the run has the password."""
    secured.finish(secured.start_files(SCENARIO, POLICY))

    accounting = secured.read("accounting.json")
    assert accounting["in_log"] == accounting["processed_distinct"] == 2000, secured.output()
    assert accounting["lost"] == accounting["foreign_ledger_records"] == 0
    assert secured.slo("lost")["value"] == 0, secured.output()
    assert not [path for path in files_of(secured.folder()) if PASSWORD in path.read_text("latin1")]


def files_of(folder: Path) -> list[Path]:
    """Return all files of a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]
