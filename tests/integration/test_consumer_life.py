"""A consumer pod starts, ends and survives faults, on a real broker."""

from __future__ import annotations

import signal
import threading
import time
import urllib.request
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from tests.eventually import eventually
from tests.integration.consumer_group import ConsumerGroupRun, consumer_group_run

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.core.scenario.cost_draws import process_ns
from lagbench.core.scenario.message_costs import LognormalCost, PoisonedKey
from lagbench.core.scenario.scenario import Work
from lagbench.core.telemetry.records_of_programs import (
    ConsumerProgress,
    FirstRecordDone,
    GroupJoined,
    OffsetsCommitted,
    PartitionsAssigned,
    PodStarted,
    PodStopped,
    SigtermReceived,
)
from lagbench.embedded.broker import Broker
from lagbench.embedded.child_server import free_port
from lagbench.shared_with_spark.event import EVENT_DTYPE

pytestmark = pytest.mark.slow
PARTITIONS = 6
# A minute of work at 2 ms and 2 in flight: a pod is stopped in the middle of it, however long the
# ledger takes to read.
BACKLOG = 60_000


def times_processed(run: ConsumerGroupRun) -> np.ndarray:
    """Return how often each event was processed; 0: lost."""
    return np.bincount(run.ledger().seq.astype(np.int64), minlength=run.sent)


def test_a_pod_reports_its_whole_life(run: ConsumerGroupRun) -> None:
    """From start to stop every station is in the telemetry, and what is committed was done.

    It is ready once the broker answered, and Prometheus finds the lab's names.
    """
    port = free_port()
    run.offer(600)
    flags = ["--process-ms=1", "--concurrency=2", "--commit-interval=0.3"]
    run.start("pod-a", *flags, metrics_port=port)

    def get(path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                return answer.read().decode()  # type: ignore[no-any-return]
        except OSError:
            return ""

    eventually(lambda: get("/ready"), "readiness")
    eventually(lambda: "assigned_partitions 6.0" in get("/metrics"), "six partitions")
    shown = get("/metrics")
    run.await_processed(600)
    eventually(lambda: run.telemetry(ConsumerProgress), "a progress record")
    exit_code = run.terminate("pod-a")

    assert exit_code == 0
    for name in ("consume_rate", "inflight", "rebalances_total", "rebalance_duration_seconds_sum"):
        assert f"\n{name} " in shown
    instants = [
        run.telemetry(kind)[0].at
        for kind in (PodStarted, GroupJoined, PartitionsAssigned, FirstRecordDone)
    ]
    assert instants == sorted(instants)
    started = run.telemetry(PodStarted)[0]
    assert 0 < started.at - started.process_started_at < 30e9
    assert sorted(run.telemetry(PartitionsAssigned)[0].owned) == list(range(PARTITIONS))
    assert len(run.telemetry(SigtermReceived)) == 1
    stopped = run.telemetry(PodStopped)[0]
    assert (stopped.is_graceful, stopped.abandoned, stopped.processed_total) == (True, 0, 600)
    assert last_committed(run) == dict.fromkeys(map(str, range(PARTITIONS)), 100)
    assert (times_processed(run) == 1).all()


def last_committed(run: ConsumerGroupRun) -> dict[str, int]:
    """Return the newest committed offset of each partition."""
    last: dict[str, int] = {}
    for committed in run.telemetry(OffsetsCommitted):
        last |= committed.offsets
    return last


@pytest.mark.parametrize("work", get_args(Work))
def test_the_pods_rate_is_its_capacity(run: ConsumerGroupRun, work: Work) -> None:
    """At 2 ms and 3 in flight a backlog is processed at 1500 a second, on a busy machine too.

    A pod that waits for each message is slower, by what each wait took too long.
    """
    run.offer(9000)
    run.start("pod-a", "--process-ms=2", "--concurrency=3", f"--work={work}")
    rows = run.await_processed(9000)

    # A pod that the machine holds up makes up for 0.25 s at most: the middle one of all tenths of a
    # second tells its pace, and the whole that it is never quicker.
    tenths = (rows.done_at - rows.started_at.min()) // 100_000_000
    took = rows.done_at - rows.started_at
    if work == "scheduled":
        assert 120 < np.median(np.bincount(tenths)) <= 151
        assert (took == 2_000_000).all()
    else:
        assert 2_000_000 < np.median(took) < 4_000_000
        assert (took >= 2_000_000).all()
    assert 9000 / ((rows.done_at.max() - rows.started_at.min()) / 1e9) <= 1501
    assert run.telemetry(PodStarted)[0].work == work
    for partition in range(PARTITIONS):
        mine = rows.partition == partition
        order = np.argsort(rows.offset[mine])
        assert (np.diff(rows.started_at[mine][order]) >= 0).all()


@pytest.mark.parametrize("work", get_args(Work))
def test_a_message_costs_its_draw_and_its_cpu_time_is_burned(
    run: ConsumerGroupRun, work: Work
) -> None:
    """Wait and CPU time of each message are those of its identity, however busy the machine is."""
    cost = LognormalCost(kind="lognormal", mean_ms=2, p99_ms=10)
    run.offer(1200)
    flags = [f"--process-ms={cost.model_dump_json()}", "--cpu-ms=0.5", "--work-seed=7"]
    run.start("pod-a", *flags, "--concurrency=4", f"--work={work}")
    rows = run.await_processed(1200)
    run.terminate("pod-a")

    events = np.zeros(1200, EVENT_DTYPE)
    events["seq"] = rows.seq
    drawn = process_ns(cost, events, seed=7) + 500_000
    took = rows.done_at - rows.started_at
    assert (took == drawn).all() if work == "scheduled" else (took >= drawn).all()
    for partition in range(PARTITIONS):
        mine = rows.partition == partition
        assert (np.diff(rows.offset[mine]) == 1).all()
        assert (np.diff(rows.started_at[mine]) >= 0).all()
    started, last = run.telemetry(PodStarted)[0], run.telemetry(ConsumerProgress)[-1]
    assert started.start_cpu_seconds is not None
    assert last.cpu_seconds - started.start_cpu_seconds > last.processed_total * 0.0005


@pytest.mark.parametrize("commit", ["manual", "transactional"])
def test_a_poisoned_message_becomes_a_dead_letter(run: ConsumerGroupRun, commit: str) -> None:
    """It is tried three times, then settled: the ledger has it as failed, and offsets go on."""
    poison = PoisonedKey(
        entity_id=17, effect="fail", from_offset_ns=0, until_offset_ns=1, attempts=3, hang_ns=0
    )
    run.offer(3000)
    flags = ["--process-ms=1", "--concurrency=2", f"--commit={commit}"]
    run.start("pod-a", *flags, f"--poison={poison.model_dump_json()}")
    rows = run.await_processed(3000)
    run.terminate("pod-a")

    is_poisoned = rows.seq % 1000 == 17
    assert rows.failed_attempts.tolist() == np.where(is_poisoned, 3, 0).tolist()
    assert set((rows.done_at - rows.started_at)[is_poisoned].tolist()) == {3_000_000}
    assert (times_processed(run) == 1).all()
    assert last_committed(run) == dict.fromkeys(map(str, range(PARTITIONS)), 500)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("commit", "work"), [("manual", "scheduled"), ("auto", "scheduled"), ("manual", "waited")]
)
def test_a_graceful_shutdown_hands_over(run: ConsumerGroupRun, commit: str, work: Work) -> None:
    """SIGTERM in the middle of a backlog: the next pod begins where the first one ended.

    Under automatic commits the queue is finished as well: its offsets count as read already.
    """
    backlog = BACKLOG if commit == "manual" else 3000
    run.offer(backlog)
    flags = ["--concurrency=2", f"--commit={commit}", f"--work={work}"]
    run.start("pod-a", "--process-ms=2", *flags)
    run.await_processed(500)
    exit_code = run.terminate("pod-a")
    run.start("pod-b", "--process-ms=0.1", *flags)
    run.await_processed(backlog)

    assert exit_code == 0
    stopped = run.telemetry(PodStopped)[0]
    assert (stopped.is_graceful, stopped.abandoned) == (True, 0)
    assert run.telemetry(SigtermReceived)[0].queued > 0
    times = times_processed(run)
    assert times.min() == 1
    assert commit == "auto" or times.max() == 1


def test_without_a_graceful_shutdown_work_is_repeated_but_not_lost(run: ConsumerGroupRun) -> None:
    """--drain off abandons its queue and what it has not committed: others do it again."""
    run.offer(BACKLOG)
    flags = ["--process-ms=2", "--concurrency=2", "--commit-interval=600"]
    run.start("pod-a", *flags, "--drain=off")
    run.await_processed(1000)
    exit_code = run.terminate("pod-a")
    run.start("pod-b", "--process-ms=0.1", "--concurrency=2")
    run.await_processed(BACKLOG)

    assert exit_code == 0
    stopped = run.telemetry(PodStopped)[0]
    assert not stopped.is_graceful
    assert stopped.abandoned > 0
    times = times_processed(run)
    assert times.min() == 1
    assert (times > 1).sum() >= 1000


def test_a_killed_pod_loses_nothing(run: ConsumerGroupRun) -> None:
    """After SIGKILL another starts from the committed offsets: repetitions, no loss."""
    run.offer(BACKLOG)
    flags = ["--concurrency=2", "--session-timeout-ms=6000"]
    run.start("pod-a", *flags, "--process-ms=2", "--commit-interval=0.5")
    run.await_processed(1000)
    run.pods["pod-a"].send_signal(signal.SIGKILL)
    committed = last_committed(run)
    run.start("pod-b", *flags, "--process-ms=0.1")
    rows = run.await_processed(BACKLOG)

    assert run.telemetry(PodStopped) == []
    assert times_processed(run).min() == 1
    assert sum(committed.values()) > 0
    again = rows.pod == "pod-b"  # nothing of what the first pod said it had committed
    for partition, offset in committed.items():
        assert rows.offset[again & (rows.partition == int(partition))].min() >= offset


def test_automatic_commits_lose_what_a_killed_pod_had_fetched(run: ConsumerGroupRun) -> None:
    """--commit auto takes what was handed over as done: the queue of a killed pod is lost."""
    run.offer(BACKLOG)
    flags = ["--concurrency=2", "--session-timeout-ms=6000", "--commit=auto"]
    run.start("pod-a", *flags, "--process-ms=2", "--commit-interval=0.1")
    run.await_processed(600)
    run.pods["pod-a"].send_signal(signal.SIGKILL)
    run.start("pod-b", *flags, "--process-ms=0.1")
    run.offer(60)  # when these are done, everything before them was done or is lost
    eventually(
        lambda: (run.ledger().seq >= BACKLOG).sum() == 60, "the last events of every partition"
    )

    assert (times_processed(run) == 0).sum() > 100
    assert {seen.cause for seen in run.telemetry(OffsetsCommitted)} == {"auto"}


def test_a_broker_that_is_away_for_ten_seconds_costs_nothing(tmp_path: Path) -> None:
    """The pods wait, continue by themselves, and every event is processed."""
    own = Broker(tmp_path / "broker")
    own.start()
    try:
        servers = own.bootstrap_servers
        with consumer_group_run(servers, tmp_path, partitions=PARTITIONS) as run:
            flags = ["--process-ms=2", "--concurrency=2", "--session-timeout-ms=30000"]
            for pod in ("pod-a", "pod-b"):
                run.start(pod, *flags)
            load = threading.Thread(target=run.offer, args=(6000,), kwargs={"rate_per_second": 400})
            load.start()
            run.await_processed(500)
            own.stop()
            time.sleep(10)
            own.start()
            load.join()
            run.await_processed(6000)
            exit_codes = [run.terminate(pod) for pod in run.pods]

            assert exit_codes == [0, 0]
            assert (times_processed(run) >= 1).all()
    finally:
        own.stop()


def test_a_slow_downstream_slows_real_pods_on_the_streams_clock(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """A write costs five times as much for the first 10 s of the stream, and not after them."""
    flags = ["--process-ms=4", "--slow-downstream=[[0,10,5]]"]
    for pod in ("pod-a", "pod-b"):
        run.start(pod, *flags)
    run.await_members(kafka_admin, 2)
    run.offer(3000)
    rows = run.await_processed(3000)

    cost_ms = (rows.done_at - rows.started_at) / 1e6
    # A pod takes the creation of the first event that it gets for the stream's start.
    created, slow_ns = run.created_at(), 10_000_000_000
    is_slow = rows.done_at < created.min() + slow_ns
    is_quick = rows.started_at > created.max() + slow_ns
    assert is_slow.any()
    assert is_quick.any()
    assert cost_ms[is_slow] == pytest.approx(20, abs=0.01)
    assert cost_ms[is_quick] == pytest.approx(4, abs=0.01)
    # Two pods of 50/s instead of 250/s.
    slow_seconds = np.ptp(rows.started_at[is_slow]) / 1e9
    assert is_slow.sum() <= slow_seconds * 2 * 50 + 2
    assert np.unique(rows.pod).size == 2


def stopped_in_a_transaction(run: ConsumerGroupRun, pod: str, admin: KafkaAdmin) -> bool:
    """Stop a pod and leave it so if it has a transaction open; else let it continue."""
    topic = run.names.processed_topic
    run.pods[pod].send_signal(signal.SIGSTOP)
    written = sum(admin.end_offsets(topic).values())
    if sum(admin.committed_end_offsets(topic).values()) < written:
        return True
    run.pods[pod].send_signal(signal.SIGCONT)
    return False


def test_in_transactions_a_killed_pod_repeats_nothing(
    run: ConsumerGroupRun, kafka_admin: KafkaAdmin
) -> None:
    """SIGKILL within a transaction: who reads what is committed sees every event once.

    The container is started again in its pod, and so ends what it had left open at once.
    """
    run.offer(BACKLOG)
    flags = ["--concurrency=2", "--session-timeout-ms=6000"]
    flags += ["--commit=transactional", "--commit-interval=2"]
    run.start("pod-a", *flags, "--process-ms=2")
    run.await_processed(1000)
    eventually(lambda: stopped_in_a_transaction(run, "pod-a", kafka_admin), "an open transaction")
    run.pods["pod-a"].send_signal(signal.SIGKILL)
    run.pods["pod-a"].wait(timeout=60)
    run.start("pod-a", *flags, "--process-ms=0.1")
    run.await_processed(BACKLOG)

    assert run.terminate("pod-a") == 0
    assert (times_processed(run) == 1).all()
