"""``lagbench scenarios | policies | new``: what there is to run, and a beginning of your own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from lagbench.cli.options import JsonOption
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode, LagbenchError, WrongInput
from lagbench.printed_commands import runnable


def scenarios(*, as_json: JsonOption = False) -> int:
    """List the scenarios of the catalog, and whether this machine can carry each."""
    from lagbench.adapters.process.processor_speed import this_processor
    from lagbench.catalog.catalog import checked_cell
    from lagbench.catalog.catalog_files import catalog_folder, list_scenarios, one_line
    from lagbench.cli.rehearsal import run_seconds
    from lagbench.core.simulation.plan import cannot_carry, cores_needed, plan_cell

    here, rows = this_processor(), []
    for name in list_scenarios():
        row: dict[str, Any] = {"name": name, "text": one_line(name, catalog_folder() / "scenarios")}
        try:
            cell = checked_cell(name)
        except LagbenchError as error:  # one wrong file of the user's catalog hides no other
            rows.append({**row, "problem": str(error)})
            continue
        plans = [plan_cell(group.scenario, group.policy) for group in cell.groups]
        rows.append(
            row
            | {
                "seconds": run_seconds(cell),
                "partitions": cell.scenario.partitions,
                "policy": cell.policy_name,
                "cores": round(cores_needed(*plans) / here.speed, 1),
                "fits": not cannot_carry(*plans, cores=here.cores, speed=here.speed),
            }
        )
    console = Terminal()
    if as_json:
        print_json(rows)
        return ExitCode.PASS
    for row in rows:
        facts = row.get("problem", "")
        if "seconds" in row:
            facts = (
                f"{row['seconds'] / 60:3.0f} min {row['partitions']:3d} partitions "
                f"{row['cores']:5.1f} cores  {row['policy']}"
            )
        console.say(Text.assemble((f"{row['name']:<20}", "bold"), facts))
        lack = "" if row.get("fits", True) else " (too much for this machine)"
        console.say(Text.assemble("  ", (row["text"], "dim"), (lack, "yellow")))
    console.say("\nlagbench plan SCENARIO predicts one; lagbench run SCENARIO rehearses it", "dim")
    return ExitCode.PASS


def policies(*, as_json: JsonOption = False) -> int:
    """List the policies of the catalog: replicas, triggers and lag threshold."""
    from lagbench.catalog.catalog import load_policy
    from lagbench.catalog.catalog_files import list_policies, one_line, policies_folder

    rows = []
    for name in list_policies():
        row: dict[str, Any] = {"name": name, "text": one_line(name, policies_folder())}
        try:
            policy = load_policy(name)
        except LagbenchError as error:
            rows.append({**row, "problem": str(error)})
            continue
        spec, limits = policy.manifest["spec"], policy.limits
        kinds = [trigger["type"] for trigger in spec.get("triggers", ())]
        rows.append(
            row
            | {
                "min": limits.floor_replicas,
                "max": limits.ceiling_replicas,
                "triggers": kinds or ["HPA"],
                "lag_threshold": limits.lag_threshold_records,
            }
        )
    console = Terminal()
    if as_json:
        print_json(rows)
        return ExitCode.PASS
    width = max((len(row["name"]) for row in rows), default=0) + 1
    for row in rows:
        facts = row.get("problem", "")
        if "max" in row:
            lag = "" if row["lag_threshold"] is None else f", {row['lag_threshold']:g} of lag a pod"
            facts = f"{row['min']} to {row['max']} replicas by {', '.join(row['triggers'])}{lag}"
        console.say(Text.assemble((f"{row['name']:<{width}}", "bold"), facts))
        console.say(Text.assemble("  ", (row["text"], "dim")))
    console.say("\nlagbench run SCENARIO --policy NAME; or your own file: --policy FILE", "dim")
    return ExitCode.PASS


def new(
    folder: Annotated[Path, typer.Argument(help="Folder to write to.", metavar="FOLDER")],
    *,
    own: Annotated[
        bool, typer.Option("--own", help="With a Deployment and code of your own.")
    ] = False,
) -> int:
    """Write a commented scenario with its policy, ready to run and to change."""
    from lagbench.core.scenario.scenario import Scenario
    from lagbench.project import PROJECT_ROOT

    catalog = PROJECT_ROOT / "include" / "catalog"
    files = {"policy.yaml": "new/policy.yaml", "scenario.yaml": "new/scenario.yaml"}
    if own:
        files |= {
            "scenario.yaml": "new/own.yaml",
            "deployment.yaml": "consumers/after-advice.yaml",
            "after_advice.py": "consumers/after_advice.py",
            "orders.jsonl": "scenarios/own_messages.jsonl",
        }
    for name in files:
        if (folder / name).exists():
            allowed = "a folder without it: nothing is overwritten"
            raise WrongInput(where=str(folder), field="file", value=name, allowed=allowed)
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in files.items():
        lines = (catalog / source).read_text(encoding="utf-8").splitlines(keepends=True)
        (folder / name).write_text("".join(_runs_here(line, folder) for line in lines), "utf-8")
    schema = json.dumps(Scenario.model_json_schema(), indent=1)
    (folder / "scenario.schema.json").write_text(f"{schema}\n")
    console, scenario = Terminal(), folder / "scenario.yaml"
    console.say(f"wrote {', '.join(files)} and scenario.schema.json, which editors read")
    named = shlex.quote(str(scenario))
    console.say(f"next: lagbench plan {named}\n      lagbench run {named}")
    return ExitCode.PASS


def _runs_here(line: str, folder: Path) -> str:
    """Return a line of a written file; a command in its comment names the files by their paths."""
    if not line.startswith("#   lagbench "):
        return line
    found = re.sub(r" (\w+\.yaml)\b", lambda match: f" {shlex.quote(str(folder / match[1]))}", line)
    return runnable(found)
