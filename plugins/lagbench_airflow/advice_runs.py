"""The work of the Dag advise: check the conf, search, prove, and write what was approved."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from lagbench.catalog.catalog import Cell, checked_cell, parse_settings
from lagbench.catalog.catalog_files import from_any_folder, resolved
from lagbench.core.advice.model import Advice, AskedSlo
from lagbench.core.advice.question import Question, check_question
from lagbench.core.policy.policy import require_kubernetes
from lagbench.core.simulation.prediction import expected_run_seconds, predict
from lagbench.results.executions import read_progress, require_same, start_execution, target_label
from lagbench.results.proof import PROOF_PAIRS, Proof
from lagbench_airflow.experiment_runs import conf_of
from lagbench_airflow.hooks import target
from lagbench_airflow.params import advice_params, conf_limits, refuse, refuse_unknown

A_LIMIT = "NAME=LIMIT, one a line, e.g. time_lag_p99_seconds=30"


def require_valid(params: Mapping[str, Any], *, has_people: bool) -> None:
    """Reject a conf that cannot be answered.

    :param has_people: False: nobody can answer, and no other Dag run is started.
    """
    check_question(_asked(params)[0])
    _place(params)
    for name, other in (("prove", "lagbench advise --prove"), ("ask", "the policy is written")):
        if params[name] and not has_people:
            refuse(name, True, f"false in a run of one process ({other})")


def _asked(params: Mapping[str, Any]) -> tuple[Question, Cell]:
    refuse_unknown(params, advice_params())
    named = params.get("policy") or None
    cell = checked_cell(str(params["scenario"]), policy=named, limits=conf_limits({}))
    require_kubernetes(cell.policy)
    slos = []
    lines = [line.strip() for line in str(params["slo"]).splitlines() if line.strip()]
    settings = parse_settings(lines, where="conf", field="slo", example=A_LIMIT)
    for name, text in settings.items():
        try:
            slos.append(AskedSlo(name=name, limit=float(text)))
        except ValueError:
            refuse("slo", f"{name}={text}", A_LIMIT)
    question = Question([cell.scenario], slos, cell.policy, budget=int(params["candidates"]))
    return question, cell


def _place(params: Mapping[str, Any]) -> Path | None:
    """Return the new file that the policy goes into; None: one beside the advice."""
    if not (given := params.get("write_to")):
        return None
    path = resolved("write_to", given)
    conf_limits({}).require_folder("write_to", given, path)
    if path.exists() or not path.parent.is_dir() or path.suffix not in (".yaml", ".yml"):
        refuse("write_to", given, "a new .yaml file in a folder that is there")
    return path
