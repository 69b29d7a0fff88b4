"""Which runs are of one cell."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from tests.fakes.run_folder_builder import POLICY_YAML, SCENARIO_YAML

from lagbench.core.compare.cell_identity import cell_id, content_digest, policies_digest
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario

QUICK: dict[str, Any] = yaml.safe_load(SCENARIO_YAML)
POLICY: dict[str, Any] = yaml.safe_load(POLICY_YAML)


def cell(scenario: Scenario | None = None, **changed: Any) -> str:
    """Return the digest of the cell, or of one that differs in ``changed``."""
    given: dict[str, Any] = {
        "policy_digest": content_digest(POLICY),
        "target_digest": content_digest("embedded"),
        "fidelity": "processes",
    }
    return cell_id(scenario or Scenario.model_validate(QUICK), **(given | changed))


def test_fields_added_later_change_no_digest() -> None:
    """A later lagbench has more fields, also inside others; at their default they do not count."""

    class LaterConsumer(ConsumerSettings):
        added: int = 7

    class LaterScenario(Scenario):
        consumer: LaterConsumer = LaterConsumer()
        added_limit: float | None = 3.5

    assert cell(LaterScenario.model_validate(QUICK)) == cell()
    assert cell(LaterScenario.model_validate(QUICK | {"added_limit": 4})) != cell()
    settings = QUICK["consumer"] | {"added": 8}
    assert cell(LaterScenario.model_validate(QUICK | {"consumer": settings})) != cell()


def test_a_default_that_is_written_out_changes_no_digest() -> None:
    """The run folder holds the effective scenario, with all defaults written out."""
    written = Scenario.model_validate(QUICK).model_dump(mode="json")

    assert cell(Scenario.model_validate(written)) == cell()


@pytest.mark.parametrize(
    ("change", "is_another"),
    [
        ({"seed": 99}, True),
        ({"partitions": 24}, True),
        ({"profile": QUICK["profile"] | {"spike_mult": 2}}, True),
        ({"consumer": {"balancer": "range"}}, True),
        ({"keys": {"entities": 10}}, True),
        ({"actions": [{"kind": "kill_pod", "at_seconds": 30}]}, True),
        ({"description": "In other words."}, False),
        ({"policy": "renamed"}, False),
        ({"slos": {"drain_seconds": 1}}, False),
    ],
)
def test_what_is_run_is_in_the_digest(change: dict[str, Any], *, is_another: bool) -> None:
    """A text, a name or a limit of the verdict does not take the baseline away."""
    assert (cell(Scenario.model_validate(QUICK | change)) != cell()) is is_another


def own(folder: str, content: str) -> Scenario:
    """Return the scenario with a user's consumer, whose manifest is in the folder."""
    consumer = {
        "kind": "own",
        "accounting": "commits",
        "env": {"K": "{bootstrap_servers} {topic} {group}"},
        "manifest": f"{folder}/mine.yaml",
        "manifest_sha256": content,
        "env_file": f"{folder}/mine.env",
    }
    return Scenario.model_validate(QUICK | {"consumer": consumer})


def test_a_users_file_is_known_by_its_content() -> None:
    """The same manifest in another checkout makes the same cell; another content another cell."""
    assert cell(own("/a", "11")) == cell(own("/b", "11"))
    assert cell(own("/a", "11")) != cell(own("/a", "22"))


def test_policy_target_and_fidelity_are_in_the_digest() -> None:
    """The policy by its content: order and comments are nothing, one threshold is."""
    reordered = dict(reversed(list(POLICY.items())))
    changed = yaml.safe_load(POLICY_YAML.replace('lagThreshold: "1000"', 'lagThreshold: "1001"'))

    assert cell(policy_digest=content_digest(reordered)) == cell()
    assert cell(policy_digest=content_digest(changed)) != cell()
    assert cell(target_digest=content_digest("context:a")) != cell()
    assert cell(fidelity="kubernetes") != cell()


def test_the_content_of_a_swapped_policy_is_in_the_digest() -> None:
    """The same name with another content is another cell; without swaps nothing changes."""
    policy = yaml.safe_load(POLICY_YAML)
    other = {**policy, "spec": {**policy["spec"], "maxReplicaCount": 3}}

    assert policies_digest(policy, []) == content_digest(policy)
    assert len({policies_digest(policy, swapped) for swapped in ([], [policy], [other])}) == 3
