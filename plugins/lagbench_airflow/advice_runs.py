"""The work of the Dag advise: check the conf, search, prove, and write what was approved."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lagbench.adapters.process.simulation_pool import simulation_pool
from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.catalog.catalog import Cell, checked_cell, parse_settings
from lagbench.catalog.catalog_files import from_any_folder, resolved
from lagbench.catalog.conf import conf_limits, refuse, refuse_unknown
from lagbench.core.advice.changes import with_changes
from lagbench.core.advice.model import Advice, AskedSlo
from lagbench.core.advice.question import Question, check_question
from lagbench.core.advice.search import search
from lagbench.core.policy.policy import require_kubernetes
from lagbench.core.scenario.offered_load import offered_load
from lagbench.core.simulation.prediction import AROUND_SECONDS
from lagbench.errors import WrongInput
from lagbench.report.advice_page import write_advice
from lagbench.results.advice_files import AdviceFolder, headline
from lagbench.results.executions import confs_of, start_execution, target_label
from lagbench.results.proof import PROOF_PAIRS, Proof
from lagbench_airflow.hooks import target
from lagbench_airflow.params import advice_params

A_LIMIT = "NAME=LIMIT, one a line, e.g. time_lag_p99_seconds=30"


def require_valid(params: Mapping[str, Any], *, has_people: bool) -> None:
    """Reject a conf that cannot be answered.

    :param has_people: False: no person can answer, and no other Dag run is started.
    """
    check_question(_asked(params)[0])
    path = _new_file(params)
    if path is not None and path.exists():
        refuse("write_to", params["write_to"], "a new file")
    for name, other in (("prove", "lagbench advise --prove"), ("ask", "then it is written")):
        if params[name] and not has_people:
            refuse(name, True, f"false in a run of one process ({other})")


def search_and_write(params: Mapping[str, Any], say: Callable[[str], object]) -> dict[str, Any]:
    """Search, write the folder of the advice, and return it with its summary.

    :raises WrongInput: no policy can hold the SLOs, or the data are not enough.
    """
    question, cell = _asked(params)
    files = AdviceFolder.create([cell.scenario.name], at=None, now=datetime.now(UTC))
    say(f"folder of the advice: {files.path}")
    began = time.monotonic()
    with simulation_pool() as evaluate:
        advice = with_changes(question, search(question, evaluate), evaluate)
    seconds = round(time.monotonic() - began, 1)
    effort = advice.searched.model_copy(update={"seconds": seconds})
    advice = advice.model_copy(update={"searched": effort})
    found = _written(files, advice, params, cell)
    say(headline(advice))
    if advice.pick is None:
        raise WrongInput(
            where=str(files.page),
            field="slo",
            value=params["slo"],
            allowed="; ".join(advice.reasons),
            sentence=f"{headline(advice)} {'; '.join(advice.reasons)}",
        )
    return found


def record_proof(folder: str, params: Mapping[str, Any], *, most: int) -> dict[str, Any]:
    """Start the proof, or find the one that was started; return keys and confs of its runs."""
    proof = _proof(folder, params)
    if not proof.folder.is_started:
        start_execution(
            proof.experiment,
            target=target_label(target.target_name()),
            started_by="dag",
            now=time.time_ns(),
            at=proof.folder,
        )
    confs = confs_of(proof.folder)
    lacking = most - len(confs)
    return {
        "folder": str(proof.folder.path),
        "keys": [*confs, *[""] * lacking],
        "confs": [*confs.values(), *[{}] * lacking],
    }


def keep_proof(folder: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Write what the rehearsals have shown into the advice; return it with its summary."""
    proof = _proof(folder, params)
    advice = proof.advice.model_copy(update={"proof": tuple(proof.read())})
    return _written(AdviceFolder(Path(folder)), advice, params, _asked(params)[1])


def write_policy(folder: str, params: Mapping[str, Any]) -> str:
    """Write the approved policy as a new file, and return its path."""
    files = AdviceFolder(Path(folder))
    path = _new_file(params) or files.path / "approved.yaml"
    text = RunFolder(files.path).read_text(files.policy)
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        if path.read_text(encoding="utf-8") != text:
            refuse("write_to", str(path), "a new file: the one that is there stays as it is")
    return str(path)


def _written(
    files: AdviceFolder, advice: Advice, params: Mapping[str, Any], cell: Cell
) -> dict[str, Any]:
    command = ["lagbench", "advise", from_any_folder(str(params["scenario"]))]
    for slo in (advice.slo, *advice.also):
        command += ["--slo", f"{slo.name}={slo.limit:g}"]
    if params.get("policy"):
        command += ["--policy", from_any_folder(str(params["policy"]))]
    command += ["--candidates", str(params["candidates"])]
    present = Path(cell.policy.where).read_bytes()
    write_advice(files, advice, present=present, command=shlex.join(command))
    return {
        "folder": str(files.path),
        "summary": RunFolder(files.path).read_text(files.summary),
    }


def _proof(folder: str, params: Mapping[str, Any]) -> Proof:
    cell = _asked(params)[1]
    duration = offered_load(cell.scenario.profile).duration_seconds
    return Proof.of(
        AdviceFolder(Path(folder)).read(),
        cell.scenario.name,
        from_any_folder(str(params["scenario"])),
        overrides={},
        pairs=PROOF_PAIRS,
        seconds=duration + AROUND_SECONDS,
    )


def _asked(params: Mapping[str, Any]) -> tuple[Question, Cell]:
    refuse_unknown(params, advice_params())
    named = params.get("policy") or None
    whole = {"rate_scale": "1"}  # the search is at the full rates, the proof at the file's scale
    scenario, limits = str(params["scenario"]), conf_limits({})
    cell = checked_cell(scenario, policy=named, overrides=whole, limits=limits)
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


def _new_file(params: Mapping[str, Any]) -> Path | None:
    """Return the file that the policy goes into; None: one beside the advice."""
    if not (given := params.get("write_to")):
        return None
    path = resolved("write_to", given)
    conf_limits({}).require_folder("write_to", given, path)
    if not path.parent.is_dir() or path.suffix not in (".yaml", ".yml"):
        refuse("write_to", given, "a .yaml file in a folder that is there")
    return path
