"""The page: self-contained, complete, and honest about what is missing."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import pytest
from tests.fakes.run_folder_builder import quick_spike_run

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.compare.compare import compare_measures
from lagbench.core.measures.accounting.accounting import BadMessageGroup
from lagbench.core.measures.evidence.played_actions import PlayedAction
from lagbench.core.measures.measures import Measures
from lagbench.core.measures.spark_measures import spark_measures
from lagbench.core.scenario.actions import ActionKind
from lagbench.core.telemetry.records_of_programs import SparkBatch, SparkDriverStarted
from lagbench.core.verdict.slo import SloStatus
from lagbench.report import page
from lagbench.report.page import content_security_policy, write_report
from lagbench.results.gate import COMPARISON_FILE, GateRecord
from lagbench.results.measure_run import judge_run, measure_run
from lagbench.shared_with_spark.message_classes import CLASSES

BATCH = SparkBatch(
    at=2_000_000_000,
    source="driver",
    batch=1,
    started_at=1_000_000_000,
    rows=100,
    batch_seconds=1.0,
    trigger_seconds=2.0,
    input_rows_per_second=100.0,
    processed_rows_per_second=100.0,
    executors=2,
)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    """Provide a judged quick_spike run folder."""
    made: RunFolder = quick_spike_run().write(tmp_path)
    measure_run(made)
    judge_run(made)
    return made


def test_the_page_needs_no_network_and_can_be_mailed(folder: RunFolder) -> None:
    """No element loads anything, no attribute runs anything, and all of it is at most 400 KB.

    Its policy has the hashes of the script and the style as they stand. A rebuilt page is the same.
    """
    html = write_report(folder).read_text()
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    markup = html.replace(script, "").replace(style, "")

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', markup)
    assert unescape(policy) == content_security_policy([script], [style])
    assert not re.search(r"<[^>]+\s(style|on[a-z]+)=", markup)
    assert not re.search(r"<(script|link|img|iframe|object)[^>]+(src|href|data)\s*=", html)
    assert folder.report.stat().st_size <= 400_000
    assert write_report(folder).read_text() == html


def test_the_page_answers_in_order(folder: RunFolder) -> None:
    """Did it hold, why, what did it cost, what next; the step to take stands at the top too.

    The SLOs' table has all of them, and begins with those that decided the verdict. The rate at
    which lag built up stands in the tile of the peak, and with its two ends above the drain.
    """
    verdict = folder.read_json(folder.verdict)
    verdict["slos"][-1]["status"] = "fail"
    folder.write_json(folder.verdict, verdict)

    html = write_report(folder).read_text()

    assert re.findall(r'<h2 id="([a-z]+)"', html) == ["held", "why", "cost", "next", "trust"]
    assert re.findall(r'<td class="status ([a-z_]+)">', html)[0] == "fail"
    measures = Measures.model_validate(folder.read_json(folder.measures))
    titles = [each["title"] for each in verdict["slos"]]
    titles += [link.title for link in measures.reaction.links]
    for shown in ("Next: ", "built up at 5,015/s", "(+14.3 s)", *titles):
        assert shown in html
    assert re.search(r"5,015 [^<]* 297 [^<]* 70,508 [^<]* 14\.0 s", html)
    inside, after = measures.scaling.pod_minutes, measures.scaling.pod_minutes_after
    for window, minutes in (("in the planned window", inside), ("after it", after)):
        assert re.search(f'{window}[^<]*</td><td class="n">{minutes:.1f}<', html)


def test_a_run_without_tables_still_has_a_page(folder: RunFolder) -> None:
    """Missing tables leave their figures empty; the verdict is still there."""
    for name in ("timeline", "lag", "replicas", "latency"):
        for part in folder.table(name).glob("*"):
            part.unlink()
        folder.table(name).rmdir()

    assert "Verdict" in write_report(folder).read_text()


def test_a_run_that_was_kept_without_its_scenario_still_has_a_page(folder: RunFolder) -> None:
    """As the runs of the findings are: limits, capacity and histogram are then not known."""
    (folder.path / "scenario.yaml").unlink()

    assert "Did it hold?" in write_report(folder).read_text()


def test_the_page_shows_what_the_log_lacks(folder: RunFolder) -> None:
    """Messages lost in the broker stand in the tile and, with what expired, in the accounting."""
    counts = folder.read_json(folder.accounting)
    counts |= {"not_in_log": 9_004, "expired": 4, "in_log": counts["in_log"] - 9_004}
    folder.write_json(folder.accounting, counts)
    measure_run(folder)
    judge_run(folder)

    html = write_report(folder).read_text()

    assert "<b>9,000 messages " in html
    assert re.search(r'broker[^<]*</td><td class="n fail">9,000<', html)
    assert re.search(r'expired[^<]*</td><td class="n undetermined">4<', html)


def test_names_of_a_run_are_escaped(folder: RunFolder) -> None:
    """Scenario and pods are named by users: quotes and markup stay text wherever they stand."""
    name = "x</script><img src=x onerror=alert(1)>\"'"
    measures = folder.read_json(folder.measures)
    measures |= {"scenario": name, "policy": name}
    measures["accounting"]["by_pod"] = [{"pod": name, "processed": 1, "duplicated": 0}]
    folder.write_json(folder.measures, measures)
    folder.write_text(folder.policy, "<img src=policy>")

    html = write_report(folder).read_text()

    assert "<img" not in html
    assert html.count("</script>") == 2  # of the data and of the script


def test_what_was_not_measured_is_a_dash() -> None:
    """None is shown as a dash by every filter, zero as zero; a phrase becomes one sentence."""
    filters = [page.FILTERS[name] for name in ("number", "seconds", "percent", "memory", "instant")]

    assert {filtered(None) for filtered in filters} == {"–"}
    assert page.FILTERS["number"](0) == "0"
    sentences = [page.FILTERS["sentence"](text) for text in ("lag fell", "Lag fell.", "")]
    assert sentences == ["Lag fell.", "Lag fell.", ""]


def test_the_page_of_a_rehearsal_shows_what_the_gate_found(folder: RunFolder) -> None:
    """Reference, bound, value and status of each measure; a run by hand has no such section."""
    assert "Nightly gate" not in write_report(folder).read_text()
    measures = Measures.model_validate(folder.read_json(folder.measures))
    good = measures.model_copy(update={"run_id": "night-1"})
    reaction = measures.reaction.model_copy(update={"assigned_seconds": 80.0})
    found = compare_measures(measures.model_copy(update={"reaction": reaction}), good)
    record = GateRecord(
        run_id=folder.run_id,
        cell="cell",
        status=found.status,
        reasons=found.reasons,
        baseline=found,
    )
    folder.write_json(COMPARISON_FILE, record.model_dump(mode="json"))

    html = write_report(folder).read_text()

    assert "gate failed: regressed" in html  # the badge says that the SLOs hold
    assert "Nightly gate: regressed" in html
    assert "Against the baseline, night-1" in html
    assert re.search(
        r"<td class=\"n\">16.5</td><td class=\"n\">32.5</td>"
        r"<td class=\"n\">80.0</td>\s*<td class=\"status fail\">regressed",
        html,
    )


def test_the_page_shows_the_actions(folder: RunFolder) -> None:
    """A row with stamps, targets and outcome for each, and its name on the time axis."""
    measures = Measures.model_validate(folder.read_json(folder.measures))
    start = measures.measured_from_at or 0
    played = PlayedAction(
        number=0,
        kind="kill_pod",
        targets=("consumer-7",),
        started_at=start + 30_000_000_000,
        ended_at=start + 31_000_000_000,
        hidden_until_at=start + 91_000_000_000,
    )
    failed = PlayedAction(number=1, kind="pause_pod", problem="was not played")
    assert "Actions of the scenario" not in write_report(folder).read_text()
    acted = measures.model_copy(update={"actions": (played, failed)})
    folder.write_json(folder.measures, acted.model_dump(mode="json"))

    html = write_report(folder).read_text()

    assert "<td>consumer-7</td>" in html
    assert "was not played" in html
    assert '"name":"kill pod"' in html


def test_the_page_has_words_for_codes(folder: RunFolder) -> None:
    """Kinds of actions, classes of messages and statuses are shown without their underscores."""
    kinds = get_args(ActionKind)
    measures = folder.read_json(folder.measures)
    bad: dict[str, Any] = dict.fromkeys(BadMessageGroup.model_fields)
    bad |= {"cause": "none", "count": 1, "partitions": ()}
    found = [{**bad, "message_class": one} for one in CLASSES]
    measures["accounting"]["bad_messages"] = found
    measures["actions"] = [{"number": n, "kind": kind} for n, kind in enumerate(kinds)]
    folder.write_json(folder.measures, Measures.model_validate(measures).model_dump(mode="json"))

    shown = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", write_report(folder).read_text())

    codes = {*kinds, *CLASSES, *get_args(SloStatus)}
    assert {one.replace("_", " ") for one in (*kinds, *CLASSES)} <= {*shown}
    assert not {one for one in codes if "_" in one} & {*shown}


def test_each_scale_step_is_drawn_beside_the_limit(folder: RunFolder) -> None:
    """The dot of a step says its dip with its precision; one of the start is none of a step."""
    shown = write_report(folder).read_text(encoding="utf-8")

    said = re.findall(
        r"<title>(steps \w+), step \d of \d: [^<]*, step within the limit</title>", shown
    )
    assert said == ["steps up"] * 3 + ["steps down"] * 2


def test_the_page_explains_a_consumer_on_spark(folder: RunFolder) -> None:
    """The saw, the reaction, the parallelism, and each batch whose messages were done again."""
    measures = folder.read_json(folder.measures)
    start = SparkDriverStarted(
        at=1,
        source="d",
        spark_version="4.2.0",
        process_started_at=1,
        checkpointed=None,
        published={},
    )
    found = spark_measures([start, BATCH], 0, 10**12)
    assert found is not None
    measures["spark"] = found.model_dump(mode="json")
    measures["consumer_kind"] = "spark"
    measures["accounting"]["repeats_by_batch"] = {"7": 340, "9": 2}
    folder.write_json(folder.measures, measures)

    html = " ".join(write_report(folder).read_text().split())

    for explained in (" a saw", "two JVMs", " cores"):
        assert explained in html
    assert "batch 7: 340; batch 9: 2." in html


PUBLISHED = {
    "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    "LICENSE.txt": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
}
"""SHA-256 of the files of uPlot 1.6.32, as published (LICENSE without its ending)."""

ROOM = resources.files("lagbench.report")


def test_scripts_and_styles_are_all_and_ours_or_published() -> None:
    """No file of uPlot was changed; a script or style that is not listed would never be read."""
    vendor = ROOM.joinpath("vendor/uplot").iterdir()
    files = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in vendor}

    assert files == PUBLISHED
    for folder, names in (("scripts", page.SCRIPTS), ("styles", page.STYLES)):
        found = {file.name.split(".")[0] for file in ROOM.joinpath(folder).iterdir()}
        assert found - {"advice", "bench"} == set(names)  # of other pages


def test_nothing_is_loaded_from_elsewhere_and_no_text_becomes_markup() -> None:
    """No address but that of the library, whose licence goes along; nothing is evaluated."""
    text = page.scripts() + page.styles()
    ours = "\n".join(file.read_text() for file in ROOM.joinpath("scripts").iterdir())

    assert "Permission is hereby granted, free of charge" in text
    addresses = set(re.findall(r"https?://[^\s\"')]+", text))
    assert addresses == {"https://github.com/leeoniya/uPlot", "http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|importScripts)\b|@import|url\(", text)
    assert not re.search("</(script|style)", text, re.IGNORECASE)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", ours
    )


def test_the_policy_names_the_exact_text() -> None:
    """A browser runs a script only if its hash is in the policy."""
    digest = base64.b64encode(hashlib.sha256(b"go()").digest()).decode()

    policy = content_security_policy(["go()"], ["a {}"])

    assert f"script-src 'sha256-{digest}';" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
