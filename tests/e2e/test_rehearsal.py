"""Setup: an empty home. One rehearsal from the command line, cross-checked with Kafka's own tools.

1. ``lagbench run`` on the tiny scenario. 2. While the fence stands, ask Kafka's own tools
for the same numbers. 3. Read verdict, accounting, report. 4. Look for anything that is left.
"""

from __future__ import annotations

import json
import re

import pytest

from lagbench.core.live.live_line import decode_line
from lagbench.core.scenario.run_names import RunNames
from tests.e2e.rehearsal import Rehearsal, wait_until
from tests.integration.kafka_tool import kafka_tool

pytestmark = [pytest.mark.measured, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def finished(rehearsal: Rehearsal) -> dict[str, str]:
    """Run once for all tests of the module; keep what Kafka's own tools said at the fence."""
    process = rehearsal.start_run("profile.spike_hold_seconds=6", "tail=none")
    rehearsal.wait_for_phase("bench_up")
    folder = rehearsal.folder()
    wait_until((folder / "fence.json").exists, "fence.json", limit_seconds=900)
    bench, names = rehearsal.bench(), RunNames(folder.name)
    accounting = rehearsal.processes("pipeline.py")
    for part in accounting:  # else the topics are gone before Kafka's tools have started
        part.suspend()
    seen = {
        "offsets": _kafka_tool(bench, "offsets", "--topic", names.events_topic),
        "groups": _kafka_tool(bench, "groups", "--describe", "--group", names.group),
        "begun": json.dumps([part.cmdline() for part in accounting if part.name() == "java"]),
    }
    for part in accounting:
        part.resume()
    seen["exit_code"] = str(rehearsal.finish(process))
    seen["output"] = rehearsal.output()
    return seen


def test_the_rehearsal_passes(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """The tiny spike holds every SLO: exit code 0, and the terminal names verdict and report.

    Planned, acknowledged, logged and processed are the same messages, none twice. Both checks
    ran. The folder says with which conf, policy, seed and versions it was made.
    """
    assert finished["exit_code"] == "0", finished["output"]
    assert "PASS" in finished["output"]
    assert "report.html" in finished["output"]
    found, manifest = rehearsal.read("accounting.json"), rehearsal.read("manifest.json")
    names = ("planned", "produced_acked", "in_log", "processed_records", "processed_distinct")
    assert {found[name] for name in names} == {8 * 150 + 6 * 1500 + 4 * 150}
    assert found["lost"] == found["duplicated"] == found["reordered"] == 0
    checks = rehearsal.read("checks.json")
    assert set(checks) == {"rebalance_count_check", "reconcile_check"}
    assert checks["reconcile_check"]["holds"]
    assert (manifest["seed"], manifest["fidelity"]) == (1, "processes")
    assert "lag-tiny" in json.dumps(manifest)


def test_kafkas_own_tools_agree(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """Kafka's GetOffsetShell and ConsumerGroupCommand show the offsets of the fence."""
    fence = rehearsal.read("fence.json")
    ends = dict(re.findall(r"^\S+\.events:(\d+):(\d+)$", finished["offsets"], re.MULTILINE))
    group = re.findall(
        r"^\S+\s+\S+\.events\s+(\d+)\s+(\d+)\s+(\d+)", finished["groups"], re.MULTILINE
    )

    assert {p: int(end) for p, end in ends.items()} == fence["events"]
    assert {p: int(committed) for p, committed, _ in group} == fence["committed"]


def test_the_accounting_said_how_far_it_was(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """Terminal and live page have it from the phases; the file of it went with the job."""
    lines = (rehearsal.folder() / "phases.jsonl").read_text().splitlines()
    said = [e["detail"] for e in map(json.loads, lines) if e["state"] == "progress"]

    assert any(re.fullmatch(r"[\d,]+ messages, \d+ %: landing the log", one) for one in said), said
    assert any(one in finished["output"] for one in said)
    assert not (rehearsal.folder() / "spark_progress.json").exists()


def test_spark_was_there_when_the_run_was_fenced(
    rehearsal: Rehearsal, finished: dict[str, str]
) -> None:
    """Warmed up: the accounting takes a third of the time. What it was warmed up with is gone."""
    commands = json.loads(finished["begun"])  # a slow machine still shows the launcher, too

    assert commands
    assert all("--held-by" in command for command in commands)
    assert not (rehearsal.folder() / ".warm-up").exists()
    log = rehearsal.root / f"state/airflow/logs/{rehearsal.folder().name}.log"
    assert "could not be warmed up" not in log.read_text()


def test_it_scaled_out(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """The autoscaler went from 1 to 4 pods, and the reaction chain is whole."""
    measures = rehearsal.read("measures.json")

    assert measures["scaling"]["max_replicas"] == 4
    assert measures["reaction"]["is_complete"], measures["reaction"]["reason"]
    assert measures["reaction"]["parts_sum_to_total"]


def test_the_report_stands_alone(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """The report loads nothing from elsewhere, and JUnit has a testcase per SLO.

    ``lagbench report`` gives the same measures and verdict from the run folder alone.
    """
    page = (rehearsal.folder() / "report.html").read_text()
    junit = (rehearsal.folder() / "junit.xml").read_text()
    before = rehearsal.read("measures.json"), rehearsal.read("verdict.json")

    assert not re.search(r"<(script|link|img)[^>]+(src|href)=[\"']https?:", page)
    assert junit.count("<testcase") == len(before[1]["slos"])
    rehearsal.finish(rehearsal.start("report", rehearsal.folder().name))
    assert (rehearsal.read("measures.json"), rehearsal.read("verdict.json")) == before


def test_the_run_was_followed_to_its_end(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """Its live lines have the cell, a lag, four ready pods and the verdict; their cost is known."""
    lines = [decode_line(x) for x in (rehearsal.folder() / "live.jsonl").read_bytes().splitlines()]
    parts = [p["component"] for p in rehearsal.read("measures.json")["observer_cost"]["components"]]

    assert lines[0].run is not None
    assert max(line.lag or 0 for line in lines) > 1_000
    assert (4, 4) in [line.replicas for line in lines]
    assert (lines[-1].is_last, lines[-1].verdict) == (True, "pass")
    assert "live" in parts


def test_nothing_is_left(rehearsal: Rehearsal, finished: dict[str, str]) -> None:
    """After the run no process of this home lives."""
    assert [p.cmdline() for p in rehearsal.processes()] == []


def _kafka_tool(bench: dict[str, object], *arguments: str) -> str:
    return kafka_tool(*arguments, "--bootstrap-server", str(bench["bootstrap_servers"]))
