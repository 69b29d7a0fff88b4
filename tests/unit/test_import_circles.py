"""Modules can be read one after the other: their imports have an order."""

from __future__ import annotations

from graphlib import TopologicalSorter

import grimp


def test_no_modules_import_each_other_in_a_circle() -> None:
    """No chain of imports ends where it began, those in functions and for types alone included."""
    packages = ("lagbench", "lagbench_airflow", "lagbench_enrich", "lagbench_spark")
    graph = grimp.build_graph(*packages, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}

    TopologicalSorter(imports).prepare()  # a CycleError names the modules
