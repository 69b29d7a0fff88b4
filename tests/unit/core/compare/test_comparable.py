"""Which runs can be compared, and why not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.run_folder_builder import POLICY_YAML, SCENARIO_YAML

from lagbench.core.compare.cell_identity import (
    Environment,
    cell_id,
    content_digest,
    policies_digest,
)
from lagbench.core.compare.comparable import (
    DRAWN_FOR_PAIRS,
    ComparedRun,
    comparable,
    side_names,
)
from lagbench.core.scenario.scenario import ConsumerSettings, Scenario
from lagbench.core.verdict.verdict import Verdict

DATA: dict[str, Any] = yaml.safe_load(SCENARIO_YAML)

MACHINE = {
    "cores": 2,
    "processor": "Fast 9000",
    "architecture": "x86_64",
    "system": "Linux",
    "kernel": "6.1",
    "memory_bytes": 8_000_000_000,
    "speed": 1.0,
}

MANIFEST: dict[str, Any] = {"machine": MACHINE, "versions": {"python": "3.11", "kafka": "4.3.1"}}


def verdict(status: Any = "pass", **more: Any) -> Verdict:
    """Return a verdict."""
    given = {"run_id": "a", "status": status, "reasons": ("because",), "slos": ()}
    return Verdict(**(given | more))


RUN = ComparedRun(
    run_id="a",
    scenario=Scenario.model_validate(DATA),
    target="t",
    environment=Environment.of_manifest(MANIFEST),
    verdict=verdict(),
    measures=quick_spike_measures(),
)

OTHER = replace(RUN, run_id="b")


def with_scenario(**changed: Any) -> ComparedRun:
    """Return the other run with other fields of the scenario."""
    return replace(OTHER, scenario=Scenario.model_validate(DATA | changed))


def with_manifest(**changed: Any) -> ComparedRun:
    """Return the other run with another manifest."""
    return replace(OTHER, environment=Environment.of_manifest(MANIFEST | changed))


def fields(first: ComparedRun, second: ComparedRun) -> list[str]:
    """Return what differs between two runs, without the values."""
    return [reason.split(":")[0] for reason in comparable(first, second)]


CLUSTER = OTHER.measures.model_copy(update={"fidelity": "kubernetes"})

BYTES_MORE = MACHINE | {"speed": 0.97, "memory_bytes": 8_000_004_096}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (OTHER, []),
        # Policies are compared with each other; a description or a limit changes no run.
        (with_scenario(policy="other", description="So.", slos={"flips": 3}), []),
        (with_scenario(allow_overscale=True), []),
        (replace(OTHER, verdict=verdict("fail")), []),  # a result
        (replace(OTHER, verdict=None), ["b has no verdict yet"]),
        (replace(OTHER, verdict=verdict("undetermined")), ["b gave no result"]),
        (replace(OTHER, verdict=verdict("fail", invalid=("late",))), ["b is invalid"]),
        (replace(OTHER, measures=CLUSTER), ["fidelity"]),
        (replace(OTHER, target="u"), ["another target"]),
        (with_manifest(machine=MACHINE | {"cores": 4}), ["machine.cores"]),
        (
            with_manifest(machine=MACHINE | {"memory_bytes": 16_000_000_000}),
            ["machine.memory_gibibytes"],
        ),
        (with_manifest(machine=BYTES_MORE), []),  # the speed of a core is no kind of machine
        (with_manifest(versions={"python": "3.12", "kafka": "4.3.1"}), ["versions.python"]),
        (with_manifest(versions={"python": "3.11"}), ["versions.kafka"]),
    ],
)
def test_what_shaped_the_numbers_must_be_the_same(other: ComparedRun, why: list[str]) -> None:
    """And recorded in both."""
    assert fields(RUN, other) == why


def test_each_other_field_of_the_scenario_is_named_unless_it_varies_on_purpose() -> None:
    """With both values. A varied field covers the fields below it, and no other one."""
    other = with_scenario(seed=99, consumer={"balancer": "range"})

    balancer, seed = comparable(RUN, other)
    for named in ("consumer.balancer", "cooperative-sticky", "range"):
        assert named in balancer
    assert re.findall(r"\d+", seed) == [f"{DATA['seed']}", "99"]
    assert comparable(RUN, other, varied=["consumer.balancer", "seed"]) == []
    assert comparable(RUN, other, varied=["consumer", "seed"]) == []
    assert len(comparable(RUN, other, varied=["consumer.bal"])) == 2


def test_targets_differ_on_purpose() -> None:
    """With their fidelity and versions; the machine and other versions must still be equal."""
    newer = MANIFEST["versions"] | {"kafka-broker": "4.4", "python": "3.12"}
    fixed = with_scenario(hpa_sync_at_seconds=2.0).scenario
    other = replace(with_manifest(versions=newer), measures=CLUSTER, target="u", scenario=fixed)

    assert len(comparable(RUN, other)) == 5
    assert comparable(RUN, other, varied=["target", "versions.python"]) == []
    assert len(comparable(RUN, other, varied=["target"])) == 1
    assert side_names((RUN, other), ["target"]) == ("processes", "kubernetes")


def test_a_users_manifest_is_compared_by_its_content() -> None:
    """Its folder makes no difference, and a varied consumer.manifest covers the content."""
    first, moved, other = (
        with_scenario(
            consumer={
                "kind": "own",
                "accounting": "commits",
                "env": {"K": "{bootstrap_servers} {topic} {group}"},
                "manifest": manifest,
                "manifest_sha256": content,
            }
        )
        for manifest, content in (("/a/x.yaml", "11"), ("/b/x.yaml", "11"), ("/a/y.yaml", "22"))
    )

    assert comparable(first, moved) == []
    assert fields(first, other) == ["scenario consumer.manifest"]
    assert comparable(first, other, varied=["consumer.manifest"]) == []


@pytest.mark.parametrize("name", ["keda", "keda-rules"])
def test_a_policy_that_does_not_use_keda_is_compared_with_one_that_does(name: str) -> None:
    """Only a ScaledObject has a version of KEDA; two versions of it are not comparable."""
    versions = MANIFEST["versions"]
    scaled_object, newer = (
        with_manifest(versions=versions | {name: version}) for version in ("2.21.0", "2.22.0")
    )

    assert comparable(RUN, scaled_object) == []
    assert fields(scaled_object, newer) == [f"versions.{name}"]


def test_a_run_folder_without_a_machine_has_no_facts() -> None:
    """Two runs that record nothing agree; one that does and one that does not differ."""
    empty = Environment.of_manifest({})

    assert empty.facts == {}
    assert empty.changes(RUN.environment) != []


def test_a_fixed_phase_is_drawn_for_the_pair_as_the_seed_is() -> None:
    """Runs at two fixed phases are of one load; a run at a free phase is of another."""
    first, second = (with_scenario(hpa_sync_at_seconds=phase) for phase in (2.0, 9.5))

    assert first.load == second.load != RUN.load
    assert fields(first, second) == ["scenario hpa_sync_at_seconds"]
    assert comparable(first, second, varied=DRAWN_FOR_PAIRS) == []


QUICK = DATA
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
        ({"consumer": QUICK["consumer"] | {"work": "waited"}}, True),
        ({"consumer": QUICK["consumer"] | {"work": "scheduled"}}, False),
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
