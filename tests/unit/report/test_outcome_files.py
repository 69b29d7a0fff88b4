"""The verdict as JUnit XML."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.nights import measures_with
from tests.fakes.run_folder_builder import quick_spike_run
from tests.fakes.two_groups import two_groups

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog import catalog_files
from lagbench.core.live.live_line import LiveCell, LiveLine, LiveSlo, LiveSpike, encode_line
from lagbench.core.measures.doubts.doubts_of_policy import EVERYTHING, Doubt
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.policy.policy_limits import PolicyLimits
from lagbench.core.scenario.consumer_kinds import level_of
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.slo import SloResult, SloStatus
from lagbench.core.verdict.verdict import Verdict, judge
from lagbench.errors import NotReady, WrongInput
from lagbench.report import page
from lagbench.report.next_steps import NextStep, cheaper_policies, next_steps
from lagbench.report.outcome_files import junit_xml, report_again, write_junit
from lagbench.report.stopped_run import stopped_run, write_stopped
from lagbench.results.history import read_history, update_history
from lagbench.results.seals import seal

STATUSES: tuple[SloStatus, ...] = ("pass", "fail", "undetermined", "not_judged")


def slo(name: str, status: SloStatus) -> SloResult:
    """Return an SLO's result; XML cannot hold all of its reason."""
    return SloResult(
        name=name,
        title=name.title(),
        threshold="at most 5 s",
        value=3.5,
        unit="s",
        status=status,
        reason="pod <x> & \x00 co",
    )


SLOS = tuple(slo(name, status) for name, status in zip("abcd", STATUSES, strict=True))

ALL = Verdict(run_id="run-1", status="fail", reasons=("B: because",), slos=SLOS)

CLAIM = SLOS[0].model_copy(update={"threshold": "must hold", "value": None})


@pytest.mark.parametrize(
    ("changes", "counts", "cases"),
    [
        (
            {},
            (4, 1, 1, 1),
            [
                ("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"),
                ("failure", "B: 3.5 s (at most 5 s). pod <x> &  co"),
                ("error", "C: 3.5 s (at most 5 s). pod <x> &  co"),
                ("skipped", "D: 3.5 s (at most 5 s). pod <x> &  co"),
            ],
        ),
        # Every SLO passes, but the run was not drained: JUnit must not show a pass.
        (
            {"status": "undetermined", "reasons": ("not drained",), "slos": SLOS[:1]},
            (2, 0, 1, 0),
            [("system-out", "A: 3.5 s (at most 5 s). pod <x> &  co"), ("error", "not drained")],
        ),
        # Of an invalid run the SLOs say what was measured; its reason is told once.
        (
            {"status": "undetermined", "reasons": ("late",), "invalid": ("late",), "slos": ()},
            (1, 0, 1, 0),
            [("error", "late")],
        ),
        # A claim has no number, and says yes instead.
        (
            {"slos": (CLAIM,)},
            (1, 0, 0, 0),
            [("system-out", "A: yes (must hold). pod <x> &  co")],
        ),
        # What only warns is neither a failure nor an error.
        (
            {"slos": (slo("b", "fail").as_warning(), slo("c", "undetermined").as_warning())},
            (2, 0, 0, 1),
            [
                ("system-out", "warning: B: 3.5 s (at most 5 s). pod <x> &  co"),
                ("skipped", "warning: C: 3.5 s (at most 5 s). pod <x> &  co"),
            ],
        ),
        # Notes decide nothing: they are the suite's.
        ({"slos": (), "notes": ("12 replicas", "a gap")}, (0, 0, 0, 0), []),
    ],
)
def test_each_status_has_its_element(
    tmp_path: Path, changes: dict[str, Any], counts: tuple[int, ...], cases: list[tuple[str, str]]
) -> None:
    """junit.xml lies in the run folder: failure, error and skipped, with counts on the suite."""
    folder = RunFolder.create("run-1", tmp_path)
    verdict = ALL.model_copy(update=changes)
    folder.write_json(folder.verdict, verdict.model_dump(mode="json"))

    suite = ET.parse(write_junit(folder)).getroot()  # noqa: S314 - our own output

    assert folder.junit.read_text() == junit_xml(verdict)
    assert suite.get("name") == "lagbench.run-1"
    names = ("tests", "failures", "errors", "skipped")
    assert tuple(int(suite.get(name, "")) for name in names) == counts
    assert [(e.tag, e.get("message", e.text)) for case in suite for e in case] == cases
    assert (suite.findtext("system-out") or "").splitlines() == [
        *verdict.notes,
        *(f"warning: {text.replace(chr(0), '')}" for text in verdict.warnings),
    ]


@pytest.mark.parametrize("is_second", [False, True])
def test_no_group_keeps_a_page_of_an_earlier_verdict(tmp_path: Path, *, is_second: bool) -> None:
    """Where one group cannot be measured, the page of each is as new as its verdict, or gone."""
    folder = two_groups(tmp_path)
    second = folder.second
    assert second is not None
    assert report_again(folder).status == "pass"
    for group in folder.groups:
        group.write_text(group.report, "the page of a pass")
        group.write_json(group.verdict, {"status": "pass of before"})
    lost, other = (second, folder) if is_second else (folder, second)
    shutil.rmtree(lost.table("lag"))

    try:
        report_again(folder)
    except NotReady:
        assert not is_second

    assert not lost.report.exists()
    assert 'errors="1"' in lost.junit.read_text()
    statuses = [group.read_json(group.verdict)["status"] for group in (lost, other)]
    assert statuses == ["undetermined", "undetermined" if is_second else "pass"]
    assert not other.report.exists() or "the page of a pass" not in other.report.read_text()


CELL = LiveCell(
    run_id="run-1",
    scenario="quick_spike",
    policy="lag-quick",
    partitions=12,
    planned_seconds=80.0,
    settled_seconds=None,
    floor_replicas=2,
    ceiling_replicas=12,
    spikes=[LiveSpike(start_seconds=10.0, end_seconds=70.0)],
    slos=[LiveSlo(name="flips", title="Flapping", limit="at most 0 flips", unit="flips")],
)


def stopped(tmp_path: Path) -> RunFolder:
    """Return the folder of a run that was stopped 177 s after its spike began, at 187 s."""
    folder = quick_spike_run().write(tmp_path)
    for name in ("accounting", "fence", "measures", "verdict"):
        (folder.path / f"{name}.json").unlink(missing_ok=True)
    shutil.rmtree(folder.tables)
    phases = [("inject_spike", "finished"), ("lag_at_rest", "started"), ("lag_at_rest", "progress")]
    lines = [json.dumps({"at": 10**18, "name": n, "state": s, "detail": ""}) for n, s in phases]
    folder.phases.write_text("\n".join([*lines, '{"at": 1']))
    live = [
        LiveLine(at=1, run=CELL),
        LiveLine(at=2, second=90.0, lag=9000, replicas=(6, 6), time_lag_seconds=12.0),
        LiveLine(at=3, second=187.4, lag=42, replicas=(6, 5), standing={"flips": (1, "broken")}),
    ]
    folder.live.write_bytes(b"".join(map(encode_line, live)) + b'{"at":')
    return folder


def test_a_line_that_ends_in_the_middle_of_a_letter_is_left_out(tmp_path: Path) -> None:
    """A run that was killed may have written half of one."""
    folder = RunFolder.create("cut-20260101-000000-abcd", tmp_path)
    for name in ("phases.jsonl", "live.jsonl"):
        (folder.path / name).write_bytes('{"name": "ü'.encode()[:-1])

    assert (stopped_run(folder).phases, stopped_run(folder).lines) == ([], [])


def test_a_stopped_run_tells_what_was_seen(tmp_path: Path) -> None:
    """State and instant since the spike, extremes and SLOs; a line cut off is left out."""
    folder = stopped(tmp_path)
    run = stopped_run(folder)

    assert run.text == "stopped at +177 s (draining), not accounted for"
    assert [value for _, value, _ in run.seen] == [9000, 42, 12.0, 6]
    assert [(slo.name, *standing) for slo, *standing in run.slos] == [("flips", 1, "broken")]
    tables = json.loads(run.data())["tables"]
    assert tables["lag"]["columns"]["total"] == [None, 9000, 42]
    folder.live.unlink()
    folder.phases.unlink()
    assert stopped_run(folder).text.startswith("stopped before its stream began")


@pytest.mark.parametrize(
    ("left", "remedy"),
    [
        ((), "lagbench run"),
        (("events", "processed", "telemetry"), "lagbench account"),
        (("copies",), "lagbench account"),
    ],
)
def test_a_run_without_accounting_gets_a_page_and_no_half_verdict(
    tmp_path: Path, left: tuple[str, ...], remedy: str
) -> None:
    """Whatever was landed of it, the message names the page and the command that goes on."""
    folder = stopped(tmp_path)
    folder.write_json(folder.verdict, {"status": "undetermined", "slos": []})
    update_history(folder)
    assert [row.run_id for row in read_history(tmp_path)] == [folder.run_id]
    for name in left:
        folder.write_text(folder.table(name) / "_SUCCESS", "")
    if left == ("copies",):
        for kind in ("events", "processed", "telemetry"):
            folder.copy(kind).mkdir(parents=True)

    with pytest.raises(NotReady, match=remedy) as told:
        report_again(folder)

    assert str(folder.report) in str(told.value)
    assert "broken" in folder.report.read_text()
    half = (folder.verdict, folder.junit, folder.measures)
    assert [path.exists() for path in half] == [False, False, False]
    assert read_history(tmp_path) == []


def test_a_stopped_run_whose_input_was_changed_says_so(tmp_path: Path) -> None:
    """It has no verdict for junit.xml, and that is not what is wrong with it."""
    folder = stopped(tmp_path)
    seal(folder)
    folder.write_text(folder.policy, "changed")

    with pytest.raises(WrongInput, match="policy"):
        report_again(folder)


def test_no_verdict_of_a_second_group_stays_beside_the_page_of_a_stopped_run(
    tmp_path: Path,
) -> None:
    """Of an earlier try, with its page."""
    folder = stopped(tmp_path)
    second = folder.make_second()
    for path in (second.scenario, second.verdict, second.report):
        second.write_text(path, "{}")

    write_stopped(folder)

    assert [path.exists() for path in (second.verdict, second.report)] == [False, False]


TWO_TABLES = Doubt(code="lag_table", about=EVERYTHING, text="two tables differ")

GOOD = quick_spike_measures()

OPEN = Verdict(run_id=GOOD.run_id, status="undetermined", reasons=("no fence",), slos=())


def text(found: list[NextStep]) -> str:
    """Return all steps as one text."""
    return "\n".join(f"{step.do}; {step.because}; {step.command}" for step in found)


@pytest.mark.parametrize(
    ("parts", "limits", "told", "not_told"),
    [
        # The HPA's sync ruled the reaction: the pods' start is not blamed.
        ({}, {"reaction_seconds": 5}, ["t2 (", "14.0 s", "useCachedMetrics"], "start of a pod"),
        # KEDA's pollingInterval has an effect at zero replicas alone.
        (
            {"reaction": {"ruling_clock": "keda_poll"}},
            {"reaction_seconds": 5},
            ["pollingInterval"],
            "useCachedMetrics",
        ),
        # Near the bound of the hottest partition it is the keys, else the pods' number.
        ({}, {"drain_seconds": 20}, ["spread the keys"], "more partitions, or"),
        (
            {"drain": {"skew_limited_seconds": 10.0}},
            {"drain_seconds": 20},
            ["more partitions, or"],
            "spread the keys",
        ),
        # With idle partitions left, maxReplicaCount is what holds the drain.
        (
            {
                "drain": {"skew_limited_seconds": 10.0},
                "scaling": {"ceiling_replicas": 6, "max_ready_replicas": 6},
            },
            {"drain_seconds": 20},
            ["maxReplicaCount up to the 12 "],
            "more partitions, or",
        ),
        # Reversals without one of the load are the loop's own; those of the load are not.
        ({"scaling": {"self_made_flips": 2}}, {}, ["lower the gain"], "maxReplicaCount"),
        ({"scaling": {"load_following_flips": 2}}, {}, ["cheaper"], "lower the gain"),
        # The command differs from the run in the balancer alone.
        (
            {},
            {"rebalance_dip_percent": 1},
            ["--seed 1 --set=consumer.balancer=consumer"],
            "second_group",
        ),
    ],
)
def test_advice_names_what_limits_the_run(
    parts: dict[str, Any], limits: dict[str, Any], told: list[str], not_told: str
) -> None:
    """Each failed SLO leads to the part of the system that ruled it."""
    measures = measures_with(**parts)
    slos = Slos(drain_seconds=120).model_copy(update=limits)

    found = text(next_steps(measures, judge(measures, slos)))

    assert [word for word in told if word not in found] == []
    assert not_told not in found


def test_a_run_that_holds_leads_to_its_price_and_lost_messages_come_first() -> None:
    """A pass has one step: look for something cheaper, in the simulator."""
    (step,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)))
    lost = measures_with(accounting={"lost": 3})
    first, *_ = next_steps(lost, judge(lost, Slos(drain_seconds=120, reaction_seconds=5)))

    (tried,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)), cheaper=["a", "b"])

    assert (step.command, "simulator" in step.do) == ("", False)
    simulated = "lagbench simulate quick_spike --policy lag-fast --policy=a --policy=b --seeds 20"
    assert tried.command == simulated
    assert ("commit" in first.do, "messages lost" in first.because) == (True, True)


def test_no_command_on_the_second_group_acts_on_the_first() -> None:
    """A dip changes the second group's balancer, and no simulation of the first is proposed."""
    dipped = judge(GOOD, Slos(drain_seconds=120, rebalance_dip_percent=1))
    (step,) = next_steps(GOOD, judge(GOOD, Slos(drain_seconds=120)), is_second=True)
    after_dip = text(next_steps(GOOD, dipped, is_second=True))

    assert "--set=second_group.consumer.balancer=consumer" in after_dip
    assert "--set=consumer.balancer" not in after_dip
    assert (step.command, "second group" in step.do) == ("", True)


RUN = "lagbench run"

SET = "--set=consumer.process_ms=3 '--set=name=a; b' "


@pytest.mark.parametrize(
    ("conf", "command"),
    [
        ({}, f"{RUN} quick_spike --policy lag-fast --seed 1"),
        # Quoted for a shell; the seed only once.
        (
            {"overrides": {"seed": "1", "consumer.process_ms": "3", "name": "a; b"}},
            f"{RUN} quick_spike --policy lag-fast {SET}--seed 1",
        ),
        (
            {"scenario": "my own/a.yaml", "policy": "so.yaml"},
            f"{RUN} 'my own/a.yaml' --policy so.yaml --seed 1",
        ),
        ({"scenario": "my.yaml", "policy": None}, f"{RUN} my.yaml --seed 1"),
    ],
)
def test_an_open_verdict_is_repeated_as_the_run_was_given(
    conf: dict[str, Any], command: str
) -> None:
    """The first step names what left it open, and the command that repeats the cell."""
    (step,) = next_steps(GOOD, OPEN, conf)

    assert (step.because, step.command) == ("no fence", command)


@pytest.mark.parametrize("has_file", [True, False])
def test_a_page_repeats_a_run_of_an_own_file_from_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_file: bool
) -> None:
    """Where the file is not there, it names the copies in the run folder, and changes nothing."""
    monkeypatch.setattr(page, "HOME", tmp_path)
    monkeypatch.setattr(catalog_files, "HOME", tmp_path)
    folder = quick_spike_run().write(tmp_path / "runs")
    conf = {"scenario": "mine/a.yaml", "policy": None, "overrides": {"partitions": "12"}}
    folder.update_manifest(conf=conf)
    if has_file:
        RunFolder(tmp_path).write_text("mine/a.yaml", "name: a")
    copies = {
        "scenario": f"runs/{folder.run_id}/scenario.yaml",
        "policy": f"runs/{folder.run_id}/policy.yaml",
    }

    assert page._repeatable(folder, conf) == (conf if has_file else copies)
    for damaged in ({**conf, "scenario": 5}, {**conf, "policy": []}, {"overrides": [1]}, ["x"]):
        assert page._repeatable(folder, damaged) == copies


def test_a_cheaper_policy_keeps_more_lag_within_the_same_replicas() -> None:
    """The nearest first; not one that scales further, begins higher, or has the same threshold."""

    def limits(least: int, most: int, lag: float | None) -> PolicyLimits:
        return PolicyLimits(least, most, lag, "")

    others = {
        "same": limits(2, 12, 500),
        "far": limits(2, 12, 9000),
        "near": limits(0, 6, 600),
        "wide": limits(2, 24, 900),
        "high": limits(3, 12, 900),
        "hours": limits(2, 12, None),
    }

    assert cheaper_policies(GOOD, limits(2, 12, 500), others) == ["near", "far"]
    assert cheaper_policies(GOOD, limits(2, 12, None), others) == []


@pytest.mark.parametrize(("limit", "tried"), [(None, ["persistent-lag-cost-optimised"]), (20, [])])
def test_a_cheaper_policy_holds_the_slos_in_the_simulator(
    tmp_path: Path, limit: float | None, tried: list[str]
) -> None:
    """It drains in more than 20 s; what is made for Spark is not for these pods."""
    folder = quick_spike_run().write(tmp_path)
    scenario = yaml.safe_load(folder.read_text(folder.scenario))
    slos = {"flips": None, "reaction_seconds": None, "drain_seconds": limit}
    folder.write_text(folder.scenario, yaml.safe_dump(scenario | {"slos": slos}))

    assert page._cheaper(folder, GOOD) == tried


def test_an_observed_group_gets_no_command_on_a_scenario() -> None:
    """No file of the catalog has its load, so a command to run it would be rejected."""
    seen = Observation(group="shop", topic="orders", pod_rate_per_second=100)
    update = {"observation": seen, "accounting_level": "commits", "scenario": "observed"}
    limits = Slos.model_validate(level_of("commits").default_limits())
    run = measures_with(scaling={"flips": 3, "self_made_flips": 3}).model_copy(update=update)
    open_run = run.model_copy(update={"doubts": (TWO_TABLES,)})

    failed = next_steps(run, judge(run, limits.model_copy(update={"flips": 0})))
    unsure = next_steps(open_run, judge(open_run, limits.model_copy(update={"flips": 9})))

    assert "lower the gain" in text(failed)
    assert "observed_load.csv" in text(failed)
    assert unsure[0].because == "two tables differ"
    assert {step.command for step in (*failed, *unsure)} == {""}


def test_the_balancer_of_a_users_consumer_is_not_a_setting_of_the_scenario() -> None:
    """A run rejects consumer.balancer with consumer.kind own, so no command sets it."""
    limits = Slos.model_validate({**level_of("output").default_limits(), "standstill_seconds": 0.1})
    still = {"group_seconds": 9.0, "group_low_seconds": 8.9, "group_high_seconds": 9.1}
    own = {"consumer_kind": "own", "accounting_level": "output"}
    run = measures_with(standstill=still).model_copy(update=own)

    found = text(next_steps(run, judge(run, limits)))

    assert "close on SIGTERM" in found
    assert "consumer.balancer" not in found
