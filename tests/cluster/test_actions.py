"""Setup: the rig with the overlay ``ci`` and a broker. One rehearsal with the actions of a cluster.

1. ``lagbench run --target context:…`` on ``actions_on_cluster``, with the runner's rights.
2. Read what was played, and the accounting. 3. An action without a right is rejected before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from lagbench.core.cluster.policy_manifest import ONLY_EMBEDDED
from lagbench.core.scenario.actions import ActionKind
from tests.cluster.cluster_rehearsal import ClusterRehearsal, lag_scaler_has_a_name
from tests.cluster.rig.rig import Rig
from tests.e2e.rehearsal import DATA

pytestmark = pytest.mark.timeout(2700)
SCENARIO = DATA / "scenarios" / "actions_on_cluster.yaml"
POLICY = DATA / "policies" / "scaler-tiny.yaml"


@pytest.fixture(scope="module")
def measures(rig: Rig, home: ClusterRehearsal, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Run once for all tests of the module; return the measures."""
    command = ("run", str(SCENARIO), "--policy", str(POLICY), *home.target_options)
    with lag_scaler_has_a_name(rig, tmp_path_factory.mktemp("names")):
        code = home.finish(home.start(*command))
    assert code in {0, 1, 4}, home.output()  # it was judged, or says what it could not judge
    return home.read("measures.json")


def test_every_kind_that_a_cluster_allows_is_played(
    home: ClusterRehearsal, measures: dict[str, Any]
) -> None:
    """The account's rights suffice: each begins, ends and is stamped as planned."""
    played = measures["actions"]

    assert {action["kind"] for action in played} == set(get_args(ActionKind)) - set(ONLY_EMBEDDED)
    assert [action["problem"] for action in played] == [""] * len(played), home.output()
    assert all(action["started_at"] for action in played)
    # Whether the load was in time is the machine's doing, and nothing of the actions.
    doubts = [
        reason for reason in home.read("verdict.json")["invalid"] if "generator" not in reason
    ]
    assert doubts == [], home.output()


def test_their_run_loses_nothing(home: ClusterRehearsal, measures: dict[str, Any]) -> None:
    """Also with a restart of all pods and a topic that grew, each message was processed."""
    accounting = home.read("accounting.json")

    assert accounting["processed_distinct"] == accounting["in_log"] == accounting["planned"] > 0
    assert accounting["lost"] == accounting["not_yet_consumed"] == 0
    assert len(accounting["partition_counts"]) == 12


def test_an_action_without_a_right_starts_nothing(home: ClusterRehearsal, tmp_path: Path) -> None:
    """``kill_pod``: exit code 2, the field and the reason, no run folder."""
    before = set((home.root / "runs").iterdir()) if (home.root / "runs").exists() else set()
    allowed = "kind: lag_scaler_down, at_seconds: 4, for_seconds: 5"
    text = SCENARIO.read_text().replace(allowed, "kind: kill_pod, at_seconds: 4")
    file = tmp_path / "actions_on_cluster.yaml"
    file.write_text(text)

    code = home.finish(home.start("run", str(file), "--policy", str(POLICY), *home.target_options))

    assert code == 2, home.output()
    assert "actions.0.kind" in home.output()
    assert set((home.root / "runs").iterdir()) == before
