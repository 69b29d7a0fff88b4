"""Names that changed: folders, scenarios and records of earlier versions are still read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from tests.fakes.measured_run import quick_spike_measures

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import load_scenario
from lagbench.core.compare.cell_identity import cell_id
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import EARLIER_NAMES, Scenario
from lagbench.core.telemetry.records import PodStopped, decode_record, encode_record
from lagbench.project import PROJECT_ROOT
from lagbench.results.measure import rejudge_run
from lagbench.results.read_run import read_scenario

RECORDED = PROJECT_ROOT / "tests/data/runs/format1_tiny"
DATA = yaml.safe_load((RECORDED / "scenario.yaml").read_text(encoding="utf-8"))


def with_consumer(**changed: object) -> Scenario:
    """Return the recorded scenario with other settings of the consumer."""
    return Scenario.model_validate(DATA | {"consumer": DATA["consumer"] | changed})


def test_a_recorded_folder_is_read(tmp_path: Path) -> None:
    """Its scenario has ``drain`` and ``drain_timeout_seconds``; it is measured and judged."""
    copy = tmp_path / "format1_tiny"
    shutil.copytree(RECORDED, copy)

    consumer = read_scenario(RunFolder(copy)).consumer

    assert {"drain", "drain_timeout_seconds"} <= DATA["consumer"].keys()
    assert (consumer.graceful_shutdown, consumer.shutdown_timeout_seconds) == (True, 10)
    assert rejudge_run(RunFolder(copy)).status == "pass"


def test_measures_of_an_earlier_version_are_read() -> None:
    """The fields of gaps and of pods without a report, by their earlier names."""
    measures = quick_spike_measures()
    written = json.loads(measures.model_dump_json())
    written["group_unseen"] = written.pop("group_gaps")
    written["scaling"]["unseen_text"] = written["scaling"].pop("gaps_text")
    written["start_cost"]["untold_pods"] = written["start_cost"].pop("unreported_pods")

    assert Measures.model_validate(written) == measures


@pytest.mark.parametrize("is_drained", [True, False])
def test_the_end_of_a_pod_is_read_by_both_names(*, is_drained: bool) -> None:
    """``is_drained`` of a topic of an earlier version; only the new name is written."""
    old = {"kind": "pod_stopped", "at": 1, "source": "a", "reason": "SIGTERM", "abandoned": 0}

    found = decode_record(json.dumps(old | {"is_drained": is_drained, "processed_total": 3}))

    assert isinstance(found, PodStopped)
    assert found.is_graceful is is_drained
    assert "is_drained" not in json.loads(encode_record(found))
    assert decode_record(encode_record(found)) == found


@pytest.mark.parametrize("name", ["consumer.drain", "consumer.graceful_shutdown"])
@pytest.mark.parametrize("in_file", ["drain", "graceful_shutdown"])
def test_a_setting_replaces_the_file_s_field_under_either_name(
    tmp_path: Path, name: str, in_file: str
) -> None:
    """The file says on, the setting off, each by one of the two names."""
    consumer = {key: value for key, value in DATA["consumer"].items() if key != "drain"}
    file = tmp_path / "a.yaml"
    file.write_text(yaml.safe_dump(DATA | {"consumer": consumer | {in_file: "on"}}))

    assert load_scenario(file).consumer.graceful_shutdown is True
    assert load_scenario(file, {name: "off"}).consumer.graceful_shutdown is False


@pytest.mark.parametrize(
    ("drain", "digest"),
    [
        ("on", "a1488df42e1c3ec2d2245b8f8e6f59d062044dd032db032d88ea9a1c6deb6074"),
        ("off", "2a33c486bca00180c5cc5da39f44948596eef75c99cf9fa3d2e87d3abbc23090"),
    ],
)
def test_a_renamed_field_makes_no_other_cell(drain: str, digest: str) -> None:
    """The digests are those that 7fddacd computed: the baselines of earlier nights still count."""
    found = cell_id(
        with_consumer(drain=drain), policy_digest="a", target_digest="b", fidelity="processes"
    )

    assert found == digest


def test_each_earlier_name_is_of_a_field() -> None:
    """The new name is a field of the scenario, the earlier one is none."""
    for earlier, current in EARLIER_NAMES.items():
        part, name = current.split(".")
        fields = type(getattr(with_consumer(), part)).model_fields
        assert name in fields
        assert earlier.split(".")[1] not in fields
