"""Whatever a user's file has, reading it ends in a cell or in one message, never in a traceback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lagbench.catalog.catalog import checked_cell, load_scenario
from lagbench.catalog.catalog_files import catalog_folder, list_scenarios
from lagbench.catalog.own_consumers import require_own_consumer
from lagbench.core.cluster.cluster_settings import ClusterSettings
from lagbench.core.cluster.own_deployment import KafkaSettings
from lagbench.core.plan.plan import plan_cell
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

MANIFESTS = PROJECT_ROOT / "tests/data/own_consumers"
OWN = {
    "name": "mine",
    "description": "mine",
    "partitions": 6,
    "profile": {"kind": "steady", "rate_per_second": 100, "duration_seconds": 10},
    "policy": "lag-quick",
    "consumer": {
        "kind": "own",
        "accounting": "commits",
        "env": {"KAFKA": "{bootstrap_servers}", "TOPIC": "{topic}", "GROUP": "{group}"},
        "manifest": "own.yaml",
        "env_file": str(MANIFESTS / "secret.env"),
    },
}
ODD = st.sampled_from(
    [
        *(None, True, 0, -1, 1.5, -0.0, 5e-324, 1e300, 10**30, 10**400, float("inf")),
        *("", "x", "12", "١٢", "on", "60s", "a" * 5000, "\0", "é", "**", "{topic}", "{", "/"),
        *([], {}, [1], [None], [[]], {"a": 1}, {"name": 1}, {"kind": []}),
    ]
)
quick = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value."""
    if path:
        yield path
    inner = value.items() if isinstance(value, dict) else ()
    for key, one in enumerate(value) if isinstance(value, list) else inner:
        yield from places(one, (*path, key))


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[float, str, Any]]:
    """Draw where to edit, as a share of all places, how, and with which value."""
    how = st.sampled_from(["replace", "remove", "wrap", "add"])
    share = st.floats(0, 1, exclude_max=True)
    return draw(st.lists(st.tuples(share, how, ODD), min_size=1, max_size=2))


def edited(content: Any, drawn: list[tuple[float, str, Any]]) -> Any:
    """Return a copy with the edits."""
    content = copy.deepcopy(content)
    for share, how, value in copy.deepcopy(drawn):
        if not (found := list(places(content))):
            break
        *way, last = found[int(share * len(found))]
        at = content
        for key in way:
            at = at[key]
        if how == "remove":
            del at[last]
        elif how == "add" and isinstance(at, dict):
            at[f"{last}s"] = value
        else:
            at[last] = [at[last]] if how == "wrap" else value
    return content


@quick
@given(scenario=st.sampled_from(list_scenarios()), drawn=edits())
def test_an_edited_scenario_is_planned_or_refused(
    tmp_path_factory: pytest.TempPathFactory, scenario: str, drawn: list[tuple[float, str, Any]]
) -> None:
    """Each is a file of the catalog."""
    folder = catalog_folder() / "scenarios"
    content = yaml.safe_load((folder / f"{scenario}.yaml").read_text())
    for part, field in (("profile", "file"), ("payload", "file"), ("consumer", "manifest")):
        if field in content.get(part, {}):
            content[part][field] = str(folder / content[part][field])
    file = tmp_path_factory.getbasetemp() / "edited.yaml"
    file.write_text(yaml.safe_dump(edited(content, drawn)))

    with suppress(WrongInput):
        cell = checked_cell(file)
        plan_cell(cell.scenario, cell.policy)


@quick
@given(
    manifest=st.sampled_from(["probes", "secret", "volume-sidecar", "on-cluster"]), drawn=edits()
)
@example(manifest="volume-sidecar", drawn=[(0.03125, "wrap", None)])  # a kind that is a list
def test_an_edited_manifest_is_taken_or_refused(
    tmp_path_factory: pytest.TempPathFactory, manifest: str, drawn: list[tuple[float, str, Any]]
) -> None:
    """Each is an ordinary one; the plan reads it, then one machine and a cluster do."""
    folder = tmp_path_factory.getbasetemp()
    documents = list(yaml.safe_load_all((MANIFESTS / f"{manifest}.yaml").read_text()))
    (folder / "own.yaml").write_text(yaml.safe_dump_all(edited(documents, drawn)))
    (folder / "mine.yaml").write_text(yaml.safe_dump(OWN))

    for on in (KafkaSettings(), ClusterSettings()):
        with suppress(WrongInput):
            require_own_consumer(load_scenario(folder / "mine.yaml"), on=on)
