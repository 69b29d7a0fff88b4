"""The trigger form of ``scenario_run``, built from the catalog when the Dag is parsed."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from airflow.sdk import Param

from lagbench.core.scenario import MAX_SEED, Balancer
from lagbench.errors import WrongInput
from lagbench.project import PROJECT_ROOT

DEFAULT_SCENARIO = "quick_spike"

_SETTING_OF_PARAM = {
    "seed": "seed",
    "balancer": "consumer.balancer",
    "drain": "consumer.drain",
    "commit": "consumer.commit",
    "rate": "profile.rate_per_second",
    "spike_mult": "profile.spike_mult",
    "spike_hold_seconds": "profile.spike_hold_seconds",
}
_LINE = re.compile(r"\s*([a-z_.]+)\s*=\s*(.*?)\s*")


def scenario_names() -> list[str]:
    """Return the catalog's scenarios by file name.

    Importing ``lagbench.catalog`` for it would bring numpy into every parse of the Dag (0.2 s).
    """
    named = os.environ.get("LAGBENCH_CATALOG")
    return _yaml_names(Path(named or PROJECT_ROOT / "include" / "catalog") / "scenarios")


def policy_names() -> list[str]:
    """Return the policies by file name."""
    named = os.environ.get("LAGBENCH_POLICIES")
    return _yaml_names(Path(named or PROJECT_ROOT / "k8s" / "policies"))


def scenario_run_params() -> dict[str, Param]:
    """Return the form; what is left empty is as the scenario's file says."""
    balancers = list(get_args(Balancer))
    return {
        "scenario": Param(
            DEFAULT_SCENARIO,
            type="string",
            examples=scenario_names(),
            title="Scenario",
            description="A name from the catalog, or the path of a scenario file.",
        ),
        "policy": Param(
            None,
            type=["null", "string"],
            examples=policy_names(),
            title="Scaling policy",
            description="A name from k8s/policies or a path; empty: the scenario's own.",
        ),
        "keep_bench": Param(
            True,
            type="boolean",
            title="Keep the bench",
            description="Leave the bench up when this run started it.",
        ),
        "seed": _optional(
            "Load", type="integer", minimum=0, maximum=MAX_SEED, title="Seed of the event stream"
        ),
        "rate": _optional(
            "Load", type="number", exclusiveMinimum=0, title="Events per second outside spikes"
        ),
        "spike_mult": _optional("Load", type="number", minimum=1, title="Spike as a multiple"),
        "spike_hold_seconds": _optional(
            "Load", type="number", exclusiveMinimum=0, title="Length of a spike in seconds"
        ),
        "balancer": _optional("Consumers", type="string", enum=balancers, title="Balancer"),
        "drain": _optional(
            "Consumers", type="string", enum=["on", "off"], title="Finish work before leaving"
        ),
        "commit": _optional(
            "Consumers",
            type="string",
            enum=["manual", "transactional", "auto"],
            title="Commit of offsets",
        ),
        "overrides": Param(
            None,
            type=["null", "object", "string"],
            format="multiline",
            section="Everything else",
            title="Settings",
            description="One key=value a line, e.g. consumer.concurrency=4 (or a JSON object).",
        ),
        "run_id": _optional(
            "Everything else",
            type="string",
            pattern=r"^([a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?)?$",
            title="Run id",
            description="Empty: made from the scenario's name and the time.",
        ),
    }


def rehearsal_params() -> dict[str, Param]:
    """Return what the standing rehearsal runs; a schedule needs defaults for all of it."""
    form = scenario_run_params()
    return {"scenario": form["scenario"], "policy": form["policy"]}


def lifecycle_params() -> dict[str, Param]:
    """Return the form of ``bench_lifecycle``."""
    return {
        "action": Param("up", type="string", enum=["up", "down", "housekeeping"], title="Action"),
        "keep_days": Param(
            30, type="integer", minimum=0, section="Housekeeping", title="Keep runs for days"
        ),
        "including_failed": Param(
            False,
            type="boolean",
            section="Housekeeping",
            title="Also delete runs that did not pass",
        ),
    }


def settings_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the overrides of a run as dotted setting -> text; the form's own fields win.

    :raises WrongInput: a line of ``overrides`` is no key=value.
    """
    settings = _overrides(params.get("overrides"))
    for name, setting in _SETTING_OF_PARAM.items():
        value = params.get(name)
        if value is not None and value != "":
            settings[setting] = str(value)
    return settings


def _overrides(given: Any) -> dict[str, str]:
    if not given:
        return {}
    if isinstance(given, Mapping):
        return {str(key): str(value) for key, value in given.items()}
    settings = {}
    for line in str(given).splitlines():
        if not line.strip():
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise WrongInput(where="conf", field="overrides", value=line, allowed="key=value")
        settings[match[1]] = match[2]
    return settings


def _optional(section: str, *, type: str, enum: list[str] | None = None, **schema: Any) -> Param:  # noqa: A002
    """Return a field that may stay empty."""
    extra: dict[str, Any] = {} if enum is None else {"enum": [None, "", *enum]}
    return Param(None, type=["null", type], section=section, **extra, **schema)


def _yaml_names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*") if path.suffix in (".yaml", ".yml"))
