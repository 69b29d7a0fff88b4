"""The broker's log of a fenced run is kept until the run is accounted for, or given up."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lagbench.adapters.runs.run_folder import LANDED_TABLES, RunFolder
from lagbench.embedded.bench_state import BenchFiles
from lagbench.embedded.broker import (
    BrokerLayout,
    ProxiedListener,
    server_properties,
)
from lagbench.embedded.kept_log import has_log, how_to_account, note_fence, put_aside

FENCE = {"events": {"0": 7}, "processed": {"0": 1}, "telemetry": {"0": 3}, "committed": {"0": 7}}


@pytest.fixture
def files(tmp_path: Path) -> BenchFiles:
    """Return the files of a bench whose broker has data."""
    found = BenchFiles(tmp_path / "state")
    _write_data(found)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Return the folder of a run without an accounting."""
    return RunFolder.create("run-1", tmp_path / "runs")


def _write_data(files: BenchFiles) -> None:
    (files.broker / "data").mkdir(parents=True)
    (files.broker / "data" / "meta.properties").write_text("version=1")


def _kept(files: BenchFiles) -> list[str]:
    return sorted(path.name for path in (files.state_dir / "kept-logs").glob("*"))


def test_the_log_of_no_fenced_run_is_deleted(files: BenchFiles) -> None:
    """A run that was never fenced measured nothing."""
    put_aside(files)

    assert not (files.broker / "data").exists()
    assert _kept(files) == []


def test_the_log_of_a_fenced_run_outlives_the_bench(files: BenchFiles, folder: RunFolder) -> None:
    """Until it is accounted for; the next bench begins with an empty broker."""
    note_fence(files.state_dir, folder, {"run-1": FENCE})
    assert has_log(files.state_dir, folder)

    put_aside(files)
    assert not (files.broker / "data").exists()
    assert _kept(files) == ["run-1"]
    assert has_log(files.state_dir, folder)

    folder.write_json(folder.accounting, {})
    _write_data(files)
    put_aside(files)
    assert _kept(files) == []


def test_deleting_the_run_folder_gives_the_log_up(files: BenchFiles, folder: RunFolder) -> None:
    """The next start or end of a bench deletes it."""
    note_fence(files.state_dir, folder, {"run-1": FENCE})
    put_aside(files)
    shutil.rmtree(folder.path)

    put_aside(files)

    assert _kept(files) == []


@pytest.mark.parametrize("left", ["tables", "copies"])
def test_nothing_is_kept_of_what_the_run_folder_has(
    files: BenchFiles, folder: RunFolder, left: str
) -> None:
    """Landed tables, or copies of all topics, are enough to account for it."""
    note_fence(files.state_dir, folder, {"run-1": FENCE})
    for kind in LANDED_TABLES:
        place = folder.table(kind) if left == "tables" else folder.copy(kind)
        place.mkdir(parents=True)
        (place / "_SUCCESS").touch()

    put_aside(files)

    assert _kept(files) == []


def test_the_remedy_names_what_is_there(files: BenchFiles, folder: RunFolder) -> None:
    """A run that was never fenced has none, and one whose messages are gone is to be run again."""
    assert how_to_account(files.state_dir, folder) == ""

    folder.write_json(folder.fence, FENCE)
    assert "run it again" in how_to_account(files.state_dir, folder)

    note_fence(files.state_dir, folder, {"run-1": FENCE})
    assert "lagbench account run-1" in how_to_account(files.state_dir, folder)

    folder.write_json(folder.accounting, {})
    assert how_to_account(files.state_dir, folder) == ""


def test_only_loopback_is_listened_on(tmp_path: Path) -> None:
    """Every listener is bound to 127.0.0.1."""
    settings = _parsed(server_properties(BrokerLayout(tmp_path), port=9092, controller_port=9093))

    listeners = settings["listeners"].split(",") + settings["advertised.listeners"].split(",")
    assert all("://127.0.0.1:" in listener for listener in listeners)


def test_clients_behind_the_proxy_are_sent_back_to_the_proxy(tmp_path: Path) -> None:
    """The second listener is the broker's own port, and it advertises the proxy's."""
    proxied = ProxiedListener(port=9094, advertised_port=9095)
    layout = BrokerLayout(tmp_path)

    text = server_properties(layout, port=9092, controller_port=9093, proxied=proxied)
    settings = _parsed(text)

    assert "PROXIED://127.0.0.1:9094" in settings["listeners"].split(",")
    assert settings["advertised.listeners"].split(",") == [
        "PLAINTEXT://127.0.0.1:9092",
        "PROXIED://127.0.0.1:9095",
    ]
    assert "PROXIED:PLAINTEXT" in settings["listener.security.protocol.map"].split(",")
    assert proxied.bootstrap_servers == "127.0.0.1:9095"


def _parsed(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines())
