"""A run folder of an observed group: made, measured and judged from the recorder's records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
import yaml
from tests.fakes import policies
from tests.fakes.telemetry import of, pod_seen

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import checked_cell
from lagbench.core.measures.evidence.observed_group import Observation
from lagbench.core.measures.measures import NAMED, Measures
from lagbench.core.measures.observed_words import seen_in_words
from lagbench.core.scenario.offered_load import load_spikes, offered_load
from lagbench.core.scenario.profiles import trace_points
from lagbench.core.simulation.plan import plan_cell
from lagbench.core.telemetry.records import encode_record
from lagbench.core.telemetry.records_of_programs import Phase, Record
from lagbench.core.telemetry.records_of_recorder import (
    GroupMember,
    GroupMembers,
    GroupSample,
    LagSample,
    PodSeen,
    ReplicaSample,
    ReplicasChanged,
    ReplicasWatched,
)
from lagbench.core.verdict.in_words import in_words
from lagbench.core.verdict.verdict import Verdict, exit_code
from lagbench.errors import NotReady, WrongInput
from lagbench.report.outcome_files import write_junit
from lagbench.report.page import tiles, write_report
from lagbench.results.measure_run import rejudge_run
from lagbench.results.observed_run import (
    LOAD_FILE,
    RECORDS_FILE,
    REPLAY_FILE,
    complete_run,
    is_unfinished,
    scenario_of_observation,
)

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
POLICY = policies.scaled_object(
    metadata={"name": "shop"},
    scaleTargetRef={"name": "shop"},
    minReplicaCount=1,
    maxReplicaCount=4,
    advanced=None,
    triggers=[policies.kafka(topic="orders", consumerGroup="shop", lagThreshold="100")],
)
SPIKE = range(40, 80)  # seconds of 300/s; else 50/s
SCALED_AT, BACK_AT, END = 62, 110, 150
POD_RATE = 100


def _at(second: float) -> int:
    return START + round(second * SECOND)


def _pods(second: int) -> int:
    return 4 if SCALED_AT <= second < BACK_AT else 1


def _records() -> list[Record]:
    """Return a spike that one pod cannot take, answered with four pods, and back to one."""
    found: list[Record] = [_pod(0)]
    end = done = 0
    for second in range(END):
        at = _at(second)
        pods = _pods(second)
        end += 300 if second in SPIKE else 50
        done = min(end, done + pods * POD_RATE)
        rows = [(p, (end + p) // 4, (done + p) // 4) for p in range(4)]
        found.append(LagSample(at=at, source="o", partitions=rows))
        members = [
            GroupMember(
                member_id=f"shop-{number}-id",
                client_id=f"shop-{number}",
                host="/10.0.0.1",
                partitions=[p for p in range(4) if p % pods == number],
            )
            for number in range(pods)
        ]
        found.append(of(GroupSample, at=at, state="stable", members=pods))
        found.append(GroupMembers(at=at, source="o", members=members))
        found.append(ReplicaSample(at=at, source="o", spec=pods, current=pods, ready=pods))
    for at, before, after in ((SCALED_AT, 1, 4), (BACK_AT, 4, 1)):
        step = {"target": "shop", "replicas_before": before, "replicas_after": after}
        manager = "kube-controller-manager"
        found.append(of(ReplicasChanged, at=_at(at - 0.5), manager=manager, **step))
    found += [_pod(n, SCALED_AT - 0.4, BACK_AT + 0.2) for n in (1, 2, 3)]
    found.append(ReplicasWatched(at=_at(END), source="o", since_at=START))
    found.append(Phase(at=_at(END), source="o", name="fence_run", state="started"))
    return found


def _with_offsets(records: Sequence[Record], of: Callable[[LagSample], Any]) -> list[Record]:
    """Return the records with other offsets in the readings of the lag."""
    return [
        msgspec.structs.replace(record, partitions=of(record))
        if isinstance(record, LagSample)
        else record
        for record in records
    ]


def _pod(number: int, created: float = -100, gone: float | None = None) -> PodSeen:
    begun = START // SECOND
    end = None if gone is None else begun + gone
    seen_at = begun + max(created, 0) if end is None else end
    stamps = (begun + created, begun + created + 0.2, end)
    return pod_seen(f"shop-{number}", *stamps, at=seen_at, started_at=_at(created))


def _folder(root: Path, records: Sequence[Record], *, has_policy: bool = True) -> RunFolder:
    folder = RunFolder.create("observed-20260101-000000-abcd", root)
    seen = Observation(
        group="shop",
        topic="orders",
        deployment="shop" if has_policy else None,
        policy="ScaledObject shop" if has_policy else None,
        assignor="range",
    )
    manifest = {
        "run_id": folder.run_id,
        "folder_format": 2,
        "created_at": START,
        "scenario": "observed",
        "policy": "shop" if has_policy else "none",
        "seed": 0,
        "fidelity": "processes",
        "observed": seen.as_dict(),
    }
    folder.write_json(folder.manifest, manifest)
    folder.write_text(folder.policy, yaml.safe_dump(POLICY) if has_policy else "")
    lines = [encode_record(record) for record in records]
    (folder.path / RECORDS_FILE).write_bytes(b"\n".join(lines) + b"\n")
    return folder


def _judged(
    folder: RunFolder, given: dict[str, Any] | None = None, pod_rate: float | None = None
) -> tuple[Measures, Verdict]:
    folder.update_manifest(conf={"slos": given or {}, "pod_rate": pod_rate})
    complete_run(folder)
    verdict = rejudge_run(folder)
    return Measures.model_validate(folder.read_json(folder.measures)), verdict


def test_a_scaled_group_is_judged_by_what_its_commits_and_replicas_show(tmp_path: Path) -> None:
    """The spike, its drain, flips and the floor are judged; the verdict names what is not.

    The observed load can be rehearsed: its file is a trace, with the spike in it.
    """
    folder = _folder(tmp_path, _records())
    measures, verdict = _judged(folder, {"drain_seconds": 60})
    statuses = {slo.name: slo.status for slo in verdict.slos}

    assert verdict.status == "pass", verdict.reasons
    assert verdict.reasons[0].startswith("judged without: lost, ")
    assert "reaction_seconds" in verdict.reasons[0]
    assert measures.observation is not None
    assert measures.observation.pod_rate_per_second == pytest.approx(POD_RATE, rel=0.05)
    assert measures.load.spikes == 1
    assert measures.load.spike_rate_per_second == pytest.approx(300, rel=0.05)
    passed = ("drain_seconds", "flips", "baseline_at_floor")
    assert [statuses[name] for name in (*passed, "lost")] == ["pass"] * 3 + ["not_judged"]
    triggers = [episode.trigger for episode in measures.rebalances.episodes]
    assert triggers == ["scale_up", "scale_down"]
    assert measures.scaling.pod_minutes is not None
    points = trace_points(folder.read_text(LOAD_FILE), where=LOAD_FILE)
    assert max(point.rate_per_second for point in points) == pytest.approx(300, rel=0.05)


@pytest.mark.parametrize(("limit", "status"), [(60, "pass"), (1, "fail")])
def test_a_drain_on_a_cluster_is_judged_by_the_observers_clock(
    tmp_path: Path, limit: float, status: str
) -> None:
    """No pod has planned the load, so no clock of a pod must be known for the end of the spike."""
    folder = _folder(tmp_path, _records())
    folder.update_manifest(fidelity="kubernetes")
    measures, verdict = _judged(folder, {"drain_seconds": limit})

    assert measures.drain.drain_interval is not None
    assert verdict.status == status, verdict.reasons
    assert status == "pass" or any("drain" in reason.lower() for reason in verdict.reasons)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("drain_seconds", 60), ("reaction_seconds", 5), ("lag_falls_at_full_parallelism", True)],
)
def test_without_a_pods_rate_no_spike_is_denied(tmp_path: Path, name: str, limit: float) -> None:
    """The group was never seen busy: what needs a spike neither passes nor fails."""
    idle = _with_offsets(_records(), lambda _: [(p, 1000, 1000) for p in range(4)])
    measures, verdict = _judged(_folder(tmp_path, idle), {name: limit})
    by_name = {slo.name: slo for slo in verdict.slos}

    assert (measures.load.spikes, verdict.status) == (0, "undetermined")
    assert any(reason.startswith(by_name[name].title) for reason in verdict.reasons)
    still_open = {other for other, slo in by_name.items() if slo.status == "undetermined"}
    assert still_open == {name, "baseline_at_floor", "flips"}
    assert name != "drain_seconds" or "--pod-rate" in by_name[name].reason


def test_a_limit_that_cannot_be_judged_leaves_the_run_open(tmp_path: Path) -> None:
    """Flips without a Deployment are not known; with a limit the run is undetermined."""
    records = [record for record in _records() if isinstance(record, _NO_PODS)]
    measures, verdict = _judged(_folder(tmp_path, records, has_policy=False), {"flips": 0})

    flips = next(slo for slo in verdict.slos if slo.name == "flips")
    assert (verdict.status, flips.status) == ("undetermined", "undetermined")
    assert measures.scaling.max_replicas is measures.scaling.floor_replicas is None


def _idle() -> list[Record]:
    records: list[Record] = [
        LagSample(at=_at(second), source="o", partitions=[(0, 500, 500 - 10 * max(0, 20 - second))])
        for second in range(30)
    ]
    return [*records, Phase(at=_at(30), source="o", name="fence_run", state="started")]


def test_a_group_without_traffic_is_measured(tmp_path: Path) -> None:
    """A log that takes nothing is a load of nothing, not an error."""
    measures, verdict = _judged(_folder(tmp_path, _idle(), has_policy=False))

    assert verdict.status == "not_judged"
    assert (measures.load.spikes, measures.lag.peak_records) == (0, 200)


_NO_PODS = (LagSample, GroupSample, GroupMembers, Phase)


@pytest.mark.parametrize(
    ("given", "status", "code", "errors"),
    [
        ({}, "not_judged", 0, "0"),
        ({"drain_seconds": 60}, "pass", 0, "0"),
        ({"drain_seconds": 1}, "fail", 1, "0"),
        ({"lost": 0}, "undetermined", 4, "1"),
    ],
)
def test_without_a_limit_nothing_is_judged(
    tmp_path: Path, given: dict[str, Any], status: str, code: int, errors: str
) -> None:
    """It is no pass and not undetermined; one limit is enough, and needs no policy."""
    records = [record for record in _records() if isinstance(record, _NO_PODS)]
    folder = _folder(tmp_path, records, has_policy=False)
    _, verdict = _judged(folder, given)
    suite = ET.parse(write_junit(folder)).getroot()  # noqa: S314 - ours

    assert (verdict.status, exit_code(verdict)) == (status, code)
    assert (suite.get("errors"), suite.get("tests")) == (errors, str(len(verdict.slos)))
    assert folder.summary().verdict == status


def test_a_limit_without_an_occasion_is_no_pass(tmp_path: Path) -> None:
    """A limit of the drain was set and there was no spike: an exit code of 0 would say it held."""
    folder = _folder(tmp_path, _idle(), has_policy=False)
    _, verdict = _judged(folder, {"drain_seconds": 5}, pod_rate=100.0)

    assert (verdict.status, exit_code(verdict)) == ("undetermined", 4)
    assert "no SLO with a limit applies" in " ".join(verdict.reasons)


def test_limits_that_only_warn_are_said_of_an_observation(tmp_path: Path) -> None:
    """It has limits, so it does not say that none was set; the broken one is named."""
    records = [record for record in _records() if isinstance(record, _NO_PODS)]
    folder = _folder(tmp_path, records, has_policy=False)
    measures, verdict = _judged(folder, {"drain_seconds": {"limit": 1, "level": "warn"}})
    said = " ".join(in_words(verdict, measures))

    assert (verdict.status, exit_code(verdict)) == ("not_judged", 0)
    assert "the limits only warn" in said
    assert "no limit was set" not in said
    assert "Warning, which does not fail the run: Lag drain 6.0 s" in said


def test_what_nobody_observed_is_not_zero(tmp_path: Path) -> None:
    """Without the Deployment nothing is said of replicas; without a ledger nothing of handovers."""
    records = [record for record in _records() if isinstance(record, _NO_PODS)]
    folder = _folder(tmp_path, records, has_policy=False)
    measures, verdict = _judged(folder)
    shown = {tile.title: tile.value for tile in tiles(measures, verdict)}

    names = ("flips", "self_made_flips", "replica_changes", "pod_minutes", "partitions_handed_over")
    assert [NAMED[name].read(measures) for name in names] == [None] * len(names)
    assert (measures.end_state.floor_replicas, shown["Flapping"]) == (None, "–")
    assert "0 flips" not in " ".join(seen_in_words(measures))


def test_an_observation_says_its_numbers(tmp_path: Path) -> None:
    """Load, lag, drain, the rate of a pod, members, rebalances, replicas."""
    measures, _ = _judged(_folder(tmp_path, _records()), {"drain_seconds": 60})

    said = re.findall(r"[\d,.]*\d", " ".join(seen_in_words(measures)))
    peak, drained = measures.lag.peak_records, measures.drain.drain_seconds
    assert said == [
        *("150", "50", "300", "1"),
        *(f"{peak:,}", f"{drained:.1f}", "100", "4", "2"),
        *("4", "2", "0", f"{measures.scaling.pod_minutes:.1f}"),
    ]


def test_the_observed_load_can_be_rehearsed_as_it_is(tmp_path: Path) -> None:
    """Its scenario has the load with its spike, the rate of a pod, the partitions, the policy."""
    folder = _folder(tmp_path, _records())
    _judged(folder)

    cell = checked_cell(scenario_of_observation(folder))
    hottest = plan_cell(cell.scenario, cell.policy).hottest_share

    pods = cell.scenario.consumer.pod_rate_per_second
    load = offered_load(cell.scenario.profile)
    assert pods == pytest.approx(POD_RATE, rel=0.05)
    assert (cell.scenario.partitions, cell.policy.limits.ceiling_replicas) == (4, 4)
    assert len(load_spikes(load, started_replicas=1, pod_rate=pods)) == 1
    assert hottest == pytest.approx(0.25, abs=0.01)


def test_only_an_observation_has_a_scenario_of_what_it_saw(tmp_path: Path) -> None:
    """One that has not ended has none yet."""
    folder = _folder(tmp_path, _records())
    with pytest.raises(NotReady):
        scenario_of_observation(folder)
    folder.manifest.write_text("{}")
    with pytest.raises(WrongInput):
        scenario_of_observation(folder)


def test_a_recreated_topic_is_judged_and_noted(tmp_path: Path) -> None:
    """The end offsets fall to 0 in the middle: the run has a verdict, which says so."""
    samples = (r for r in _records() if isinstance(r, LagSample) and r.at == _at(20))
    kept = {row[0]: row for row in next(samples).partitions}

    def again(sample: LagSample) -> Any:
        if sample.at < _at(20):
            return sample.partitions
        return [(p, e - kept[p][1], (c or 0) - (kept[p][2] or 0)) for p, e, c in sample.partitions]

    records = _with_offsets(_records(), again)
    measures, verdict = _judged(_folder(tmp_path, records), {"drain_seconds": 60})

    assert verdict.status == "pass", verdict.reasons
    assert measures.load.spike_rate_per_second == pytest.approx(300, rel=0.05)
    assert [n for n in verdict.notes if re.search(r" 4 partitions .*-20\.0 s", n)], verdict.notes


def test_without_two_readings_nothing_is_measured(tmp_path: Path) -> None:
    """The message has the reason of the reading that failed."""
    records: list[Record] = [LagSample(at=_at(0), source="o", partitions=[(0, 5, 5)])]

    with pytest.raises(NotReady, match="succeeded twice"):
        complete_run(_folder(tmp_path, records, has_policy=False))


def test_the_longest_time_without_a_reading_of_a_partition_is_kept(tmp_path: Path) -> None:
    """From second 19 to 60 of one of four; the load is even there, so no advice may use it."""
    records = _with_offsets(
        _records(),
        lambda sample: [
            row for row in sample.partitions if row[0] != 2 or not _at(20) <= sample.at < _at(60)
        ],
    )

    assert complete_run(_folder(tmp_path, records)).longest_gap_seconds == 41


def test_a_killed_observation_is_judged_until_its_last_record(tmp_path: Path) -> None:
    """Its folder has the records, the last one cut off, and what the user gave."""
    folder = _folder(tmp_path, [r for r in _records() if not isinstance(r, Phase)])
    with (folder.path / RECORDS_FILE).open("ab") as file:
        file.write(b'{"kind": "lag_sam')
    folder.write_text(folder.scenario, "")
    assert is_unfinished(folder)

    measures, verdict = _judged(folder, {"drain_seconds": 60})

    assert not is_unfinished(folder)
    assert (measures.lag.samples, measures.measured_until_at) == (END, _at(END))
    assert verdict.status == "pass", verdict.reasons


def test_a_policy_that_could_not_be_read_is_named(tmp_path: Path) -> None:
    """The account may not list ScaledObjects: the notes call the policy unknown, and why."""
    folder = _folder(tmp_path, _records())
    unread = "ScaledObject: could not list it: forbidden"
    seen = Observation("shop", "orders", deployment="shop", policy_unknown=unread)
    folder.update_manifest(observed=seen.as_dict(), policy="none")
    folder.write_text(folder.policy, "")
    _, verdict = _judged(folder)

    assert f"policy unknown: {unread}" in verdict.notes
    assert next(s for s in verdict.slos if s.name == "baseline_at_floor").status == "not_judged"


def test_the_report_shows_the_group_its_policy_and_no_accounting(tmp_path: Path) -> None:
    """No table of messages by identity; a policy that KEDA cannot run is called so."""
    folder = _folder(tmp_path, _records())
    _judged(folder)
    check: dict[str, Any] = {
        "kind": "ScaledObject",
        "name": "shop",
        "accepted": True,
        "can_run": True,
        "loop_gain": 15.0,
        "pod_rate_per_second": 100.0,
        "findings": [],
    }
    (folder.path / "policy_check.json").write_text(json.dumps(check))
    page = write_report(folder).read_text()
    replay = f"<code>lagbench run {folder.path / REPLAY_FILE}</code>"
    for shown in (
        replay,
        "group shop, observed",
        "15.00 (HPA sync",
        "shop: accepted, nothing found.",
    ):
        assert shown in page
    assert "Accounting by identity" not in page
    assert "cannot run" not in page

    names = ("field", "value", "happens", "instead")
    check |= {"can_run": False, "loop_gain": None, "pod_rate_per_second": None}
    check["findings"] = [{"level": "broken", **dict.fromkeys(names, "x")}]
    for is_accepted, said in ((True, "accepted"), (False, "refused")):
        content = json.dumps({**check, "accepted": is_accepted})
        (folder.path / "policy_check.json").write_text(content)
        assert re.search(f"shop: [^<]*{said}", write_report(folder).read_text())
