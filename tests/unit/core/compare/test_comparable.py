"""Which runs can be compared, and why not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.fakes.measured_run import quick_spike_measures
from tests.fakes.run_folder_builder import SCENARIO_YAML

from lagbench.core.compare.comparable import DRAWN_FOR_PAIRS, ComparedRun, comparable
from lagbench.core.compare.environment import Environment
from lagbench.core.scenario import Scenario
from lagbench.core.verdict import Verdict

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


def test_two_runs_of_a_cell_are_comparable() -> None:
    """There is no reason against it."""
    assert comparable(RUN, OTHER) == []


def test_policy_text_limits_and_permission_may_differ() -> None:
    """Policies are compared with each other; a description or a limit changes no run."""
    other = with_scenario(
        policy="other", description="Said otherwise.", slos={"flips": 3}, allow_overscale=True
    )

    assert comparable(RUN, other) == []


def test_a_failed_verdict_is_a_result() -> None:
    """A cell that misses its SLOs is comparable."""
    assert comparable(RUN, replace(OTHER, verdict=verdict("fail"))) == []


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (None, ""),
        (verdict("undetermined"), "because"),
        (verdict("fail", invalid=("late",)), "late"),
        (verdict("undetermined", invalid=("late",)), "late"),
    ],
)
def test_a_gap_is_not_comparable(found: Verdict | None, reason: str) -> None:
    """No verdict, an undetermined one, or another load than planned."""
    (said,) = comparable(RUN, replace(OTHER, verdict=found))

    assert said.startswith("b ")
    assert said.endswith(reason)


def test_another_fidelity_or_target_is_not_comparable() -> None:
    """Processes are not a cluster, and one cluster is not another."""
    cluster = OTHER.measures.model_copy(update={"fidelity": "kubernetes"})

    assert fields(RUN, replace(OTHER, measures=cluster)) == ["fidelity"]
    assert fields(RUN, replace(OTHER, target="u")) == ["another target"]


def test_each_other_field_of_the_scenario_is_named() -> None:
    """Load, consumers and seed, with both values."""
    other = with_scenario(seed=99, consumer={"balancer": "range"})

    balancer, seed = comparable(RUN, other)
    for named in ("consumer.balancer", "cooperative-sticky", "range"):
        assert named in balancer
    assert re.findall(r"\d+", seed) == [f"{DATA['seed']}", "99"]


def test_a_field_may_differ_on_purpose() -> None:
    """A varied field covers the fields below it, and no other one."""
    other = with_scenario(seed=99, consumer={"balancer": "range"})

    assert comparable(RUN, other, varied=["consumer.balancer", "seed"]) == []
    assert comparable(RUN, other, varied=["consumer", "seed"]) == []
    assert len(comparable(RUN, other, varied=["consumer.bal"])) == 2


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


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"machine": MACHINE | {"cores": 4}}, "machine.cores"),
        ({"machine": MACHINE | {"memory_bytes": 16_000_000_000}}, "machine.memory_gibibytes"),
        ({"versions": {"python": "3.12", "kafka": "4.3.1"}}, "versions.python"),
        ({"versions": {"python": "3.11"}}, "versions.kafka"),
    ],
)
def test_another_kind_of_machine_or_version_is_not_comparable(
    change: dict[str, Any], field: str
) -> None:
    """What shaped the numbers must be the same, and recorded in both."""
    assert fields(RUN, with_manifest(**change)) == [field]


@pytest.mark.parametrize("name", ["keda", "keda-rules"])
def test_a_policy_that_does_not_use_keda_is_compared_with_one_that_does(name: str) -> None:
    """Only a ScaledObject has a version of KEDA; two versions of it are not comparable."""
    versions = MANIFEST["versions"]
    scaled_object, newer = (
        with_manifest(versions=versions | {name: version}) for version in ("2.21.0", "2.22.0")
    )

    assert comparable(RUN, scaled_object) == []
    assert fields(scaled_object, newer) == [f"versions.{name}"]


def test_the_measured_speed_of_a_core_is_no_kind_of_machine() -> None:
    """It differs with each measurement; so do some bytes of memory."""
    other = with_manifest(machine=MACHINE | {"speed": 0.97, "memory_bytes": 8_000_004_096})

    assert comparable(RUN, other) == []
    assert other.environment.key == RUN.environment.key


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
