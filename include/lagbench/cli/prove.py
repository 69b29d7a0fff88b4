"""``lagbench advise --prove``: rehearse what was advised, and set it beside what was predicted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from lagbench.cli.asked_experiment import AskedExperiment, Place
from lagbench.cli.experiment_plan import print_hours
from lagbench.cli.options import refuse
from lagbench.cli.terminal import Terminal

if TYPE_CHECKING:
    from lagbench.core.advice.model import Advice


def require_provable(
    pairs: int,
    asked: Iterable[str],
    policy: str | None,
    overrides: Mapping[str, str],
    *,
    target: str,
    target_settings: Path | None,
) -> None:
    """Reject, before the search, what no rehearsal could use.

    :param asked: scenarios that are rehearsed with the present policy, at the scale that was asked.
    """
    from lagbench.catalog.catalog import checked_cell
    from lagbench.core.compare.experiment import allowed_pairs
    from lagbench.orchestrator.target import find_target

    try:
        allowed_pairs(pairs)
    except ValueError as error:
        refuse("--pairs", pairs, str(error))
    for one in asked:
        checked_cell(one, policy=policy, overrides=overrides)
    find_target(target, target_settings)


def prove(
    console: Terminal,
    advice: Advice,
    asked: Mapping[str, str],
    *,
    overrides: Mapping[str, str],
    pairs: int,
    target: str,
    target_settings: Path | None,
) -> Advice:
    """Return the advice with its proof; the same advice continues after the last run.

    :param asked: by the scenario's name in the advice, the name or path that was given.
    :raises NotReady: a rehearsal ended without a verdict.
    """
    from lagbench.catalog.catalog import checked_cell
    from lagbench.catalog.catalog_files import from_any_folder
    from lagbench.cli.rehearsal import run_seconds
    from lagbench.results.proof import Proof

    proofs = []
    for scenario in advice.scenarios:  # all are checked before the first run
        name = from_any_folder(asked[scenario])
        seconds = run_seconds(checked_cell(name, overrides=overrides))
        proof = Proof.of(advice, scenario, name, overrides=overrides, pairs=pairs, seconds=seconds)
        proofs.append(proof)
    place = Place(target, target_settings, inf)
    for proof in proofs:
        found = AskedExperiment.of(console, proof.experiment, place, None, proof.folder.path)
        print_hours(found)
        found.execute()
    return advice.model_copy(update={"proof": tuple(row for one in proofs for row in one.read())})
