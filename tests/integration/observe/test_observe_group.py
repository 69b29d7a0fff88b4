"""Observe a group on a real broker with TLS, SASL/SCRAM and rules that allow Describe alone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.integration.observe.foreign_group import ForeignGroup, foreign_group
from tests.integration.secured_broker import PASSWORD, USER, SecuredBroker, secured_broker

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.measures.measures import Measures
from lagbench.core.telemetry.records_of_recorder import GroupSample
from lagbench.core.verdict.verdict import Verdict
from lagbench.results.observed_run import LOAD_FILE, RECORDS_FILE, read_records

pytestmark = pytest.mark.slow
GROUP, TOPIC = "shop", "orders"
_LAGBENCH = [sys.executable, "-c", "from lagbench.cli.app import main; main()"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """Provide a broker on which ``USER`` may describe the group and the topic, and no more."""
    with secured_broker(tmp_path_factory.mktemp("secured") / "broker", has_acls=True) as running:
        admin = AdminClient({"bootstrap.servers": running.broker.bootstrap_servers})
        for kind, name in ((ResourceType.TOPIC, TOPIC), (ResourceType.GROUP, GROUP)):
            rule = AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{USER}",
                "*",
                AclOperation.DESCRIBE,
                AclPermissionType.ALLOW,
            )
            admin.create_acls([rule])[rule].result(60)
        yield running


@pytest.fixture(scope="module")
def there(secured: SecuredBroker) -> Iterator[ForeignGroup]:
    """Provide a group with one member, whose clients use the plain listener."""
    with foreign_group(secured.broker.bootstrap_servers, GROUP, TOPIC) as running:
        yield running


@pytest.fixture
def kafka_config(secured: SecuredBroker, tmp_path: Path) -> Path:
    """Provide the file with the observer's settings: TLS with its own certificate, and SCRAM."""
    settings = secured.tls_settings(tmp_path)
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return path


class Observer:
    """A running ``lagbench observe`` with a runs folder of its own."""

    def __init__(self, runs: Path, kafka_config: Path, *more: str) -> None:
        """Start the command."""
        self.runs = runs
        runs.mkdir(exist_ok=True)
        arguments = ["--group", GROUP, "--topic", TOPIC, "--kafka-config", str(kafka_config)]
        self.process = subprocess.Popen(
            [*_LAGBENCH, "observe", *arguments, *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "LAGBENCH_RUNS_DIR": str(runs)},
        )

    @property
    def folder(self) -> Path:
        """The run folder."""
        return next(path for path in self.runs.iterdir() if path.name.startswith("observed"))

    def end(self) -> tuple[int, str]:
        """Wait for the command; return its exit code and what it printed."""
        output, _ = self.process.communicate(timeout=400)
        return self.process.returncode, output

    def wait_members(self, wanted: Callable[[int], bool], *, readings: int = 4) -> None:
        """Wait until the last readings showed a stable group with the wanted members."""
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.end()[1]
            found = list(self.runs.glob(f"observed*/{RECORDS_FILE}"))
            records = read_records(found[0]) if found else []
            samples = [record for record in records if isinstance(record, GroupSample)]
            last = samples[-readings:]
            if len(last) == readings and all(
                s.state == "stable" and wanted(s.members) for s in last
            ):
                return
            time.sleep(0.2)
        raise AssertionError("the observer never saw the members")


def _committed(servers: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": servers})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)])
    return {p.partition: p.offset for p in asked[GROUP].result(60).topic_partitions}


@pytest.mark.smoke
def test_members_that_join_and_leave_are_reported_and_nothing_is_written(
    secured: SecuredBroker, there: ForeignGroup, kafka_config: Path, tmp_path: Path
) -> None:
    """Joins, leaves, load and lag of a foreign group are in the folder; Kafka is as it was."""
    servers = secured.broker.bootstrap_servers
    with KafkaAdmin(servers) as admin:
        topics_before, groups_before = admin.topic_names(""), admin.group_ids("")
    observer = Observer(tmp_path / "runs", kafka_config, "--for", "10m")
    observer.wait_members(lambda members: members == 1)
    there.add()
    observer.wait_members(lambda members: members == 2)
    there.remove()
    observer.wait_members(lambda members: members == 1)
    observer.process.send_signal(signal.SIGINT)
    code, output = observer.end()
    assert code == 0, output  # no limit was set
    with KafkaAdmin(servers) as admin:
        assert (admin.topic_names(""), admin.group_ids("")) == (topics_before, groups_before)
    folder = observer.folder
    measures = Measures.model_validate(_json(folder / "measures.json"))
    verdict = Verdict.model_validate(_json(folder / "verdict.json"))
    assert (measures.accounting_level, measures.fidelity) == ("commits", "unknown")
    assert measures.validity.is_valid
    assert not measures.doubts
    assert verdict.status == "not_judged"
    assert re.search(r"\d of 600 s  observing: lag \d", output)  # without a terminal, too
    joined = [e for e in measures.rebalances.episodes if e.members_after > e.members_before]
    left = [e for e in measures.rebalances.episodes if e.members_after < e.members_before]
    assert joined
    assert left
    assert measures.lag.samples
    assert measures.lag.unknown_samples < measures.lag.samples
    rates = [float(line.split(",")[1]) for line in (folder / LOAD_FILE).read_text().split()[1:-1]]
    assert max(rates) > 0
    assert 'testsuite name="' in (folder / "junit.xml").read_text()
    assert "group shop, observed" in (folder / "report.html").read_text()
    assert PASSWORD not in "".join(
        path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()
    )


def test_the_observers_account_can_write_nothing(
    secured: SecuredBroker, there: ForeignGroup, kafka_config: Path
) -> None:
    """The account with which an observation works is refused by the broker when it would write."""
    from confluent_kafka import KafkaException, TopicPartition

    from pod_program.kafka_settings import read_settings

    settings = read_settings(kafka_config)
    before = _committed(secured.broker.bootstrap_servers)
    consumer = Consumer({**settings, "group.id": GROUP})
    try:
        with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
            consumer.commit(offsets=[TopicPartition(TOPIC, 0, 0)], asynchronous=False)
    finally:
        consumer.close()
    assert all(_committed(secured.broker.bootstrap_servers)[p] >= at for p, at in before.items())


def test_a_limit_that_commits_cannot_judge_leaves_the_run_open(
    there: ForeignGroup, kafka_config: Path, tmp_path: Path
) -> None:
    """An SLO that the user sets, and that committed offsets cannot judge, is undetermined."""
    observer = Observer(tmp_path / "runs", kafka_config, "--for", "6s", "--slo", "lost=0")
    code, output = observer.end()
    assert code == 4, output
    verdict = Verdict.model_validate(_json(observer.folder / "verdict.json"))
    lost = next(slo for slo in verdict.slos if slo.name == "lost")
    assert lost.status == "undetermined"
    assert "lost" not in verdict.reasons[0]


def test_a_killed_observer_leaves_no_process_behind(
    there: ForeignGroup, kafka_config: Path, tmp_path: Path
) -> None:
    """SIGKILL ends the recorder; its file stays readable, and ``report`` judges what is there."""
    observer = Observer(tmp_path / "runs", kafka_config, "--for", "10m")
    observer.wait_members(lambda members: members >= 1)
    observer.process.kill()
    observer.process.communicate(timeout=120)
    path = observer.folder / RECORDS_FILE
    size = path.stat().st_size
    assert read_records(path)
    observer_threads = Path(f"/proc/{observer.process.pid}")
    assert not observer_threads.exists()
    assert path.stat().st_size == size
    done = subprocess.run(
        [*_LAGBENCH, "report", observer.folder.name],
        env={**os.environ, "LAGBENCH_RUNS_DIR": str(observer.runs)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert Verdict.model_validate(_json(observer.folder / "verdict.json")).status == "not_judged"
    assert (observer.folder / "junit.xml").is_file()


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--topic", "no-such-topic"], "--topic"),
        (["--group", "no-such-group"], "no-such-group"),
        (["--for", "soon"], "--for"),
        (["--deployment", "shop"], "--target"),
        (["--slo", "lots=1"], "--slo"),
    ],
)
def test_what_cannot_be_observed_is_refused_before_a_folder_is_made(
    there: ForeignGroup, kafka_config: Path, tmp_path: Path, more: list[str], named: str
) -> None:
    """One message names the flag; there is no run folder."""
    observer = Observer(tmp_path / "runs", kafka_config, *more)
    code, output = observer.end()
    assert code in (2, 3), output
    assert named in output
    assert not list((tmp_path / "runs").iterdir())


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
