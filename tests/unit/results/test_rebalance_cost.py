"""What rebalances and standstills cost, from run folders that were changed one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.fakes.run_folder_builder import EPOCH, RunContent, quick_spike_run, write_by_partition

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.telemetry.records_of_programs import (
    GroupJoined,
    PartitionsAssigned,
    PartitionsRevoked,
)
from lagbench.core.telemetry.records_of_recorder import ReplicaSample
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import judge
from lagbench.results.cell_run import read_scenario
from lagbench.results.measure_run import measure_run

SECOND = 1_000_000_000

STEP_AT = 35.8
"""Seconds after the start at which four pods join the first two, with 60,000 messages waiting."""

DIP, STANDS = "rebalance_dip_percent", "standstill_seconds"


@pytest.fixture
def content() -> RunContent:
    """Return the whole run, to be changed by a test."""
    return quick_spike_run()


def slo(folder: RunFolder, name: str) -> SloResult:
    """Return one SLO's result; the offsets, which no test changes with the work, doubt nothing."""
    measures = measure_run(folder).model_copy(update={"doubts": ()})
    verdict = judge(measures, read_scenario(folder).slos)
    return next(found for found in verdict.slos if found.name == name)


def work(content: RunContent, change: Callable[[float, int], int]) -> None:
    """Change how many messages the group did, by the bin's second after the start."""
    content.tables["timeline"] = [
        (at, offered, change((at - EPOCH) / SECOND, processed), again)
        for at, offered, processed, again in content.tables["timeline"]
    ]


def test_a_stop_that_is_no_scale_step_fails(content: RunContent, tmp_path: Path) -> None:
    """Twelve pods, a backlog, and nothing done for 20 s: without any rebalance it is a fail."""
    work(content, lambda second, count: 0 if 66 <= second < 86 else count)
    folder = content.write(tmp_path)

    assert slo(folder, STANDS).status == "fail"
    assert "at +46.0 s" in slo(folder, STANDS).reason


def test_the_partition_that_stood_longest_is_known(content: RunContent, tmp_path: Path) -> None:
    """The accounting counts by partition, too: the run passes."""
    folder = content.write(tmp_path)
    write_by_partition(folder)

    measures = measure_run(folder)

    assert measures.standstill is not None
    assert measures.standstill.partition is not None
    assert measures.standstill.message_seconds == 0.002
    assert slo(folder, DIP).status == "pass"
    assert slo(folder, STANDS).status == "pass"
    assert "absent" not in measures.rebalances.detail


def test_a_dip_that_lasts_is_no_noise(content: RunContent, tmp_path: Path) -> None:
    """Half of the work for the 14 s after the step: what it spoils is not what is undisturbed."""
    work(content, lambda second, count: count // 2 if STEP_AT <= second < 50 else count)
    folder = content.write(tmp_path)
    write_by_partition(folder)

    found = slo(folder, DIP)

    assert (found.status, found.value) == ("fail", pytest.approx(50, abs=2))


def test_a_step_whose_rebalance_nobody_saw_is_undetermined(
    content: RunContent, tmp_path: Path
) -> None:
    """The replicas rose under a backlog, but no pod of the step told that it joined."""
    content.records = [
        record
        for record in content.records
        if not (
            isinstance(record, GroupJoined | PartitionsAssigned | PartitionsRevoked)
            and EPOCH + 30 * SECOND < record.at < EPOCH + 48 * SECOND
        )
    ]
    folder = content.write(tmp_path)
    write_by_partition(folder)

    found = slo(folder, DIP)

    assert found.status == "undetermined"
    assert "no rebalance was recorded" in found.reason


def test_messages_that_were_lost_do_not_make_an_idle_group_dip(
    content: RunContent, tmp_path: Path
) -> None:
    """400 were skipped by a commit and the scenario tolerates it: nobody waits for them."""
    work(content, lambda second, count: count - 50 if 100 <= second < 100.75 else count)
    content.accounting["lost"] = 400
    folder = content.write(tmp_path)

    measures = measure_run(folder)

    assert measures.standstill is not None
    assert measures.standstill.group_seconds == 0
    assert slo(folder, DIP).status == "pass"


def test_scaled_to_zero_the_reaction_is_no_standstill(content: RunContent, tmp_path: Path) -> None:
    """The policy wanted none until the first message came, and a pod needs its time."""
    content.policy_yaml = content.policy_yaml.replace("minReplicaCount: 2", "minReplicaCount: 0")
    wake_at = EPOCH + 12 * SECOND
    content.records = [
        replace(record, spec=0, current=0, ready=0)
        if isinstance(record, ReplicaSample) and record.at < wake_at
        else replace(record, at=wake_at)
        if isinstance(record, GroupJoined | PartitionsAssigned) and record.at < EPOCH
        else record
        for record in content.records
    ]
    work(content, lambda second, count: 0 if second < 12 else count)
    folder = content.write(tmp_path)

    assert measure_run(folder).standstill is not None
    assert slo(folder, STANDS).status == "pass"


def test_a_folder_says_from_what_partitions_were_reported(
    content: RunContent, tmp_path: Path
) -> None:
    """Without the tables of messages the samples of the lag tell them, and that is said."""
    folder = content.write(tmp_path)

    assert "samples of lag" in measure_run(folder).rebalances.detail
    assert json.loads(folder.measures.read_text())["standstill"]["partition"] is None
