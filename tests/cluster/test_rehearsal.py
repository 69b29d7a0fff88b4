"""Setup: the rig with the overlay ``ci`` and a broker. One rehearsal, with the runner's rights.

1. ``lagbench run --target context:…`` on the tiny scenario; its Leases are watched.
2. Read verdict, accounting, reaction chain, the HPA as taken up. 3. Look for anything left.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.scenario.run_names import NAMESPACE, RUN_ID_ANNOTATION
from lagbench.embedded.broker import Broker
from tests.cluster.cluster_rehearsal import ClusterRehearsal, left_behind
from tests.cluster.rig.rig import Rig
from tests.eventually import eventually

pytestmark = [pytest.mark.measured, pytest.mark.timeout(2700)]


@pytest.fixture(scope="module")
def finished(rig: Rig, home: ClusterRehearsal) -> dict[str, Any]:
    """Run once for all tests of the module."""
    seen: list[dict[str, Any]] = []
    with watched_leases(rig, home.root / "leases.json", seen):
        exit_code = home.finish(home.start_run(options=home.target_options))
    return {"exit_code": exit_code, "output": home.output(), "leases": seen}


@contextmanager
def watched_leases(rig: Rig, file: Path, seen: list[dict[str, Any]]) -> Iterator[None]:
    """Collect what happens to the namespace's Leases during the block."""
    command = [rig.kubectl, "--kubeconfig", str(rig.kubeconfig), "-n", NAMESPACE, "get", "leases"]
    with file.open("w") as output:
        watch = subprocess.Popen(
            [*command, "--watch", "--output-watch-events", "-o=json"], stdout=output
        )
        try:
            yield
            eventually(lambda: '"DELETED"' in file.read_text(), "the end of the Lease is seen")
        finally:
            watch.terminate()
            watch.wait(timeout=60)
    text, decoder = file.read_text().strip(), json.JSONDecoder()
    while text:
        event, end = decoder.raw_decode(text)
        seen.append(event)
        text = text[end:].strip()


def test_the_rehearsal_passes_on_a_real_cluster(
    home: ClusterRehearsal, finished: dict[str, Any]
) -> None:
    """KEDA and the HPA hold every SLO of the tiny spike; the manifest says it was Kubernetes."""
    assert finished["exit_code"] == 0, finished["output"]
    assert home.read("manifest.json")["fidelity"] == "kubernetes"
    accounting = home.read("accounting.json")
    assert accounting["produced_acked"] == accounting["processed_distinct"] > 0
    assert accounting["lost"] == accounting["duplicated"] == accounting["reordered"] == 0


def test_the_reaction_chain_is_whole(home: ClusterRehearsal, finished: dict[str, Any]) -> None:
    """Every link from load step to first record has a stamp, and the clocks' offset is bounded."""
    measures = home.read("measures.json")

    assert measures["scaling"]["max_replicas"] == 4
    assert measures["end_state"]["is_at_floor"]
    reaction = measures["reaction"]
    assert reaction["is_complete"], reaction["reason"]
    bounds = reaction["clocks"]["bounds"]
    assert {bound["clock"] for bound in bounds} >= {"API server", "rig-node"}
    for bound in bounds:  # one machine: the true offset is zero
        assert -0.5 < bound["low_seconds"] <= 0 <= bound["high_seconds"] < 0.5


def test_policy_and_hpa_are_on_record(home: ClusterRehearsal, finished: dict[str, Any]) -> None:
    """The run folder has the operator's diff and what KEDA and the HPA said of it last."""
    last = home.read("autoscaler.json")

    assert home.read("hpa.json")["name"] == "keda-hpa-consumer"
    hpa = last["HorizontalPodAutoscaler"]["keda-hpa-consumer"]["status"]
    types = {condition["type"]: condition["status"] for condition in hpa["conditions"]}
    assert (types["AbleToScale"], types["ScalingActive"]) == ("True", "True")
    assert last["ScaledObject"]["consumer"]["status"]["hpaName"] == "keda-hpa-consumer"
    assert "+kind: ScaledObject" in (home.folder() / "policy.diff").read_text()


def test_the_namespace_was_the_run_s_own(home: ClusterRehearsal, finished: dict[str, Any]) -> None:
    """Taken by this home's Airflow for this run, renewed by the teardown, given back at its end."""
    holder = (home.root / "state" / "lease-holder").read_text()
    run_id = home.folder().name

    reported = [(seen["type"], *_holder_and_run(seen["object"])) for seen in finished["leases"]]

    assert reported == [(kind, holder, run_id) for kind in ("ADDED", "MODIFIED", "DELETED")]


def _holder_and_run(lease: dict[str, Any]) -> tuple[str, str]:
    return lease["spec"]["holderIdentity"], lease["metadata"]["annotations"][RUN_ID_ANNOTATION]


def test_nothing_is_left_in_the_cluster(
    rig: Rig, rig_broker: Broker, home: ClusterRehearsal, finished: dict[str, Any]
) -> None:
    """No object with a run's label, no Lease, topic, group or process stays behind."""
    assert left_behind(rig, rig_broker, home) == []
