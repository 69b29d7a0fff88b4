"""Modules can be read one after the other: their imports have an order."""

from __future__ import annotations

import subprocess
import sys
from graphlib import TopologicalSorter

import grimp
import pytest

PACKAGES = (
    *("lag_scaler", "lagbench", "lagbench_airflow", "lagbench_enrich", "lagbench_spark"),
    "pod_program",
)
CORE = "lagbench.core"


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    """Provide the imports of all packages, those in functions and for types alone included."""
    return grimp.build_graph(*PACKAGES, cache_dir=None)


def test_no_modules_import_each_other_in_a_circle(graph: grimp.ImportGraph) -> None:
    """No chain of imports ends where it began."""
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}

    TopologicalSorter(imports).prepare()  # a CycleError names the modules


def test_the_rooms_of_the_core_are_few_and_in_order(graph: grimp.ImportGraph) -> None:
    """At most 14 folders with 35 imports between them, none of them up or in a circle."""
    rooms = {room for room in graph.find_children(CORE) if graph.find_children(room)}
    imports = {
        room: {
            other
            for other in rooms - {room}
            if graph.direct_import_exists(importer=room, imported=other, as_packages=True)
        }
        for room in rooms
    }

    TopologicalSorter(imports).prepare()
    assert len(rooms) <= 14
    assert sum(map(len, imports.values())) <= 35


def test_the_rule_of_the_lag_scaler_loads_no_client() -> None:
    """Dags and commands read policies; what talks to brokers is imported at its first use."""
    public = ("addresses", "explain", "metadata", "offsets", "rule", "sources", "window")
    program = "".join(f"import lag_scaler.{name}\n" for name in public)
    program += (
        "import sys\nprint({'confluent_kafka', 'grpc', 'prometheus_client'} & {*sys.modules})"
    )

    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "set()\n"
