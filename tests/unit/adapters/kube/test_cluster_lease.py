"""Two Airflows and one Lease, on an API server in memory."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest
from tests.fakes.fake_kafka_admin import FakeKafkaAdmin
from tests.fakes.fake_kube import FakeKube
from tests.fakes.fake_leases import FakeLeases

from lagbench.adapters.clean_up import clear_cluster
from lagbench.adapters.kube.cluster_lease import HOLDER_VARIABLE, ClusterLease, stored_holder
from lagbench.core.scenario.run_names import RUN_ID_LABEL
from lagbench.errors import NotReady

HOUR = 3600


@pytest.fixture
def leases(monkeypatch: pytest.MonkeyPatch) -> FakeLeases:
    """Return the API server's Leases."""
    leases = FakeLeases()
    monkeypatch.setattr(kubernetes.client, "CoordinationV1Api", leases)
    return leases


def kube() -> Any:
    """Return a client as far as a Lease needs one."""
    made = FakeKube()
    configuration = SimpleNamespace(host="https://api")
    made.api_client = SimpleNamespace(configuration=configuration)  # type: ignore[attr-defined]
    made.namespace = "spikes"  # type: ignore[attr-defined]
    return made


def airflow(holder: str) -> ClusterLease:
    """Return the Lease as ``holder`` sees it."""
    return ClusterLease(kube(), holder)


def test_it_is_taken_and_given_back(leases: FakeLeases) -> None:
    """Looking writes nothing, taking twice is a renewal, and giving back leaves no object."""
    here = airflow("here")

    here.require_free()
    assert leases.writes == []
    here.acquire("a", duration_seconds=HOUR)
    here.acquire("a", duration_seconds=HOUR)
    assert here.release()

    assert leases.writes == ["create", "replace", "delete"]
    assert not here.release()


def test_another_s_is_refused_until_it_expires(leases: FakeLeases) -> None:
    """Held for its whole duration by the API server's clock, then taken over."""
    airflow("there").acquire("b", duration_seconds=HOUR)
    here = airflow("here")

    for act in (here.require_free, lambda: here.acquire("a", duration_seconds=HOUR)):
        with pytest.raises(NotReady, match=r"there \(run b\)"):
            act()
    assert not here.release()
    leases.pass_seconds(HOUR + 1)
    here.acquire("a", duration_seconds=HOUR)

    assert leases.writes == ["create", "replace"]
    assert leases.holder == "here"


@pytest.mark.parametrize("expired", [False, True])
def test_the_faster_one_has_it(leases: FakeLeases, *, expired: bool) -> None:
    """Between look and write another takes it: the conflict is looked at, and rejected.

    Of an expired one, too, only one replaces the version that both have seen.
    """
    if expired:
        airflow("dead").acquire("c", duration_seconds=HOUR)
        leases.pass_seconds(2 * HOUR)
    leases.before_write = lambda: airflow("there").acquire("b", duration_seconds=HOUR)

    with pytest.raises(NotReady, match="there"):
        airflow("here").acquire("a", duration_seconds=HOUR)

    assert leases.holder == "there"


def test_a_race_with_the_end_of_a_lease_is_decided_by_its_version(leases: FakeLeases) -> None:
    """One that vanished between look and replacement is made again.

    One that another took between look and deletion stays the other's.
    """
    here = airflow("here")
    here.acquire("a", duration_seconds=HOUR)
    leases.before_write = here.release

    here.acquire("b", duration_seconds=HOUR)
    assert leases.writes == ["create", "delete", "create"]

    leases.pass_seconds(2 * HOUR)
    leases.before_write = lambda: airflow("there").acquire("b", duration_seconds=HOUR)
    assert not here.release()
    assert leases.holder == "there"


def test_without_the_server_s_clock_nothing_is_taken(leases: FakeLeases) -> None:
    """An answer without a Date is told, not replaced by this machine's clock."""
    leases.reports_time = False

    with pytest.raises(NotReady, match="without a Date"):
        airflow("here").acquire("a", duration_seconds=HOUR)


def test_a_clean_up_sweeps_only_with_the_lease(leases: FakeLeases) -> None:
    """What stands in a namespace that another holds by now is that other's."""
    client: Any = kube()
    job = {"kind": "Job", "metadata": {"name": "producer-b", "labels": {RUN_ID_LABEL: "b"}}}
    client.objects["Job", "producer-b"] = job
    admin: Any = FakeKafkaAdmin()
    admin.topics["lagbench.b.events"] = {0: 0}
    airflow("there").acquire("b", duration_seconds=HOUR)

    with pytest.raises(NotReady, match="there"):
        clear_cluster(client, admin, lambda _: None, holder="here", run_id="a")
    assert ("Job", "producer-b") in client.objects
    assert "lagbench.b.events" in admin.topics
    removed = clear_cluster(client, admin, lambda _: None, holder="there", run_id="b")

    assert removed.workloads == ["Job/producer-b"]
    assert leases.lease is None


@pytest.fixture(autouse=True)
def no_name_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no name come from the environment."""
    monkeypatch.delenv(HOLDER_VARIABLE, raising=False)


def test_a_state_folder_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells the host; an empty file would be nobody's. A name in the environment wins."""
    here, there, empty = tmp_path / "here", tmp_path / "there", tmp_path / "empty"
    empty.mkdir()
    (empty / "lease-holder").touch()

    name = stored_holder(here)

    assert name.startswith(f"{socket.gethostname()}-")
    assert stored_holder(here) == name
    assert stored_holder(there) != name
    with pytest.raises(NotReady, match="lease-holder"):
        stored_holder(empty)
    monkeypatch.setenv(HOLDER_VARIABLE, "the-team")
    assert stored_holder(empty) == "the-team"
    assert stored_holder(tmp_path / "new") == "the-team"
    assert not (tmp_path / "new").exists()
