"""The folder of an advice: the answer as data, the policy, what it changes, and the way back."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import yaml

from lagbench.adapters.runs.run_folder import FolderFile, RunFolder, runs_root
from lagbench.core.advice.model import Advice, Candidate, ScenarioResult
from lagbench.core.advice.proof import ROLES
from lagbench.core.keda.object.scaled_object_rules import HPA_CONFIG
from lagbench.core.measures.measures import NAMED
from lagbench.core.simulation.prediction import Residual
from lagbench.errors import NotReady, WrongInput

ADVICE_FOLDER = "_advice"
"""In the runs folder; no run id begins with an underscore."""


@dataclass(frozen=True, slots=True)
class AdviceFolder:
    """The files of one advice below ``path``; without a pick there are the first three."""

    path: Path

    advice = FolderFile("advice.json")
    summary = FolderFile("summary.md")  # for a pull request
    page = FolderFile("advice.html")
    policy = FolderFile("scaled-object.yaml")
    difference = FolderFile("policy.diff")  # against the present policy, if there is one
    revert = FolderFile("revert.yaml")  # the present policy, byte for byte

    @classmethod
    def create(cls, scenarios: Sequence[str], *, at: Path | None, now: datetime) -> AdviceFolder:
        """Make the folder: ``at``, or a new one of that instant.

        :raises WrongInput: ``at`` has other files than those of an advice.
        """
        name = f"{'-'.join(scenarios)[:60]}-{now.astimezone(UTC):%Y%m%d-%H%M%S-%f}"
        path = (runs_root() / ADVICE_FOLDER / name if at is None else at).absolute()
        folder = cls(path)
        is_other = path.exists() and not folder.advice.exists()
        if is_other and (not path.is_dir() or any(path.iterdir())):
            allowed = "a new folder, an empty one, or that of an advice"
            raise WrongInput(where="advise", field="--folder", value=path, allowed=allowed)
        path.mkdir(parents=True, exist_ok=True)
        return folder

    def read(self) -> Advice:
        """Return the advice.

        :raises NotReady: the folder has none that can be read.
        """
        return RunFolder(self.path).read_model(self.advice, Advice)

    def kept(self, question: str) -> Advice | None:
        """Return the advice if it answers that question with a policy, so that no search is due."""
        try:
            found = self.read() if self.advice.exists() else None
        except NotReady:
            return None
        return found if found and found.pick and found.question == question else None

    def write(self, advice: Advice, *, present: bytes | None, command: str) -> None:
        """Write all files but the page; those that the advice no longer has are removed.

        :param present: the file of the present policy. :param command: asks the same again.
        """
        files, pick = RunFolder(self.path), advice.pick
        texts: dict[Path, bytes] = {
            self.advice: (advice.model_dump_json(indent=2) + "\n").encode(),
            self.summary: summary(advice, command).encode(),
        }
        if pick is not None:
            old = None if advice.present is None else advice.present.manifest
            new = ordered_like(pick.manifest, old)
            head = f"# lagbench advise: {advice.slo.slo.title} {advice.slo.slo.threshold}\n"
            texts[self.policy] = (head + written(new)).encode()
            if old is not None and present is not None:
                texts[self.revert] = present
                before, after = (written(one).splitlines(keepends=True) for one in (old, new))
                if difference := "".join(difflib.unified_diff(before, after, "present", "advised")):
                    texts[self.difference] = difference.encode()
        for path in (self.policy, self.difference, self.revert):
            if path not in texts:
                path.unlink(missing_ok=True)
        for path, content in texts.items():
            files.write_bytes(path, content)


def ordered_like(new: Any, old: Any) -> Any:
    """Return ``new`` with its fields in the order of ``old``; those that are new come last."""
    if isinstance(new, Mapping):
        known: Mapping[str, Any] = old if isinstance(old, Mapping) else {}
        keys = dict.fromkeys([*(key for key in known if key in new), *new])
        return {key: ordered_like(new[key], known.get(key)) for key in keys}
    if isinstance(new, list | tuple):
        beside = old if isinstance(old, list | tuple) else ()
        return [
            ordered_like(one, beside[number] if number < len(beside) else None)
            for number, one in enumerate(new)
        ]
    return new


def written(manifest: Mapping[str, Any]) -> str:
    """Return an object as YAML."""
    return yaml.safe_dump(dict(manifest), sort_keys=False, allow_unicode=True, width=1_000)


def headline(advice: Advice) -> str:
    """Return the answer in one sentence."""
    asked = " and ".join(
        f"{one.slo.title} {one.slo.threshold}" for one in (advice.slo, *advice.also)
    )
    pick, present = advice.pick, advice.present
    if advice.outcome == "not_enough_data":
        return f"Not enough data to advise on {asked}."
    if pick is None:
        none = f"None of {advice.searched.candidates:,} policies can be advised for"
        is_proven = any(one.is_broken for one in advice.bounds)
        return f"{'No policy can hold' if is_proven else none} {asked}."
    cost = f"{numbers(advice, pick)[2]} pod-minutes"
    if pick.family == "present":
        return f"Keep the present policy: it holds {asked} with {cost}."
    if present is None or not present.pod_minutes or pick.pod_minutes is None:
        return f"{pick.name} holds {asked} with {cost}."
    share = 1 - pick.pod_minutes / present.pod_minutes
    percent = f"{100 * abs(share):.0f} % {'fewer' if share >= 0 else 'more'} pod-minutes than"
    than = percent if round(100 * share) else "as many pod-minutes as"
    if present.holds:
        return f"Same SLO ({asked}), {than} the present policy: {pick.name}."
    return f"{pick.name} holds {asked} with {than} the present policy, which does not."


def worst(one: Candidate) -> ScenarioResult:
    """Return the scenario with the highest median of the SLO's measure; never known counts most."""
    medians = ((result.slo_value.median, result) for result in one.results)
    return max(medians, key=lambda row: inf if row[0] is None else row[0])[1]


def numbers(advice: Advice, one: Candidate) -> tuple[str, str, str, str]:
    """Return what a table shows of a candidate: SLO value, real range, pod-minutes, flips."""
    real = worst(one).real_range
    between = "–" if real is None else f"{advice.slo.text(real[0])} to {advice.slo.text(real[1])}"
    cost = "–" if one.pod_minutes is None else f"{one.pod_minutes:,.1f}"
    flips = "–" if one.flips is None else f"{one.flips:g}"
    return advice.slo.text(one.slo_value), between, cost, flips


def named(advice: Advice) -> Iterator[tuple[str, Candidate]]:
    """Yield the pick, the runner-up, the present policy and the rivals with their titles."""
    for role, title in ROLES.items():
        one: Candidate | None = getattr(advice, role)
        if one is not None:
            yield title, one
    for one in advice.rivals:
        yield "rival", one


def short_field(field: str) -> str:
    """Return a field without the long path that all lines of a behavior have."""
    return field.replace(f"{HPA_CONFIG}.", "…")


def prove_command(command: str, folder: AdviceFolder) -> str:
    """Return the command that rehearses the advice of a folder; it does not search again."""
    given = [one for one in shlex.split(command) if one != "--prove"]
    if "--folder" not in given:
        given += ["--folder", str(folder.path)]
    return shlex.join([*given, "--prove"])


def summary(advice: Advice, command: str) -> str:
    """Return the advice as Markdown."""
    lines = [f"### {headline(advice)}", ""]
    lines += [f"* {_escaped(reason)}" for reason in advice.reasons]
    if advice.margin is not None:
        lines.append(f"* {_escaped(advice.margin.text)}")
    if advice.pick is not None:
        figures = (advice.slo.slo.title, "a real run, 90 %", "pod-minutes", "flips")
        rows = [
            (title, f"`{one.name}`", *numbers(advice, one), "yes" if one.holds else "no")
            for title, one in named(advice)
        ]
        lines += ["", *_table(("policy", "", *figures, "holds"), rows)]
    if advice.changes:
        heads = ("line", "before", "after", "why", "simulated effect")
        changed = [
            (*map(_code, (short_field(one.field), one.before, one.after)), one.reason, one.effect)
            for one in advice.changes
        ]
        lines += ["", *_table(heads, changed)]
    if advice.proof:
        lines += ["", *_table(PROOF_HEADS, list(proof_rows(advice)))]
    if advice.outcome != "advice":
        lines += [f"* {one.scenario}: {_escaped(one.text)}" for one in advice.bounds]
    said = f"{effort_text(advice)}. {proof_text(advice)}"
    return "\n".join([*lines, "", said, "", f"`{command}`", ""])


def effort_text(advice: Advice) -> str:
    """Say what was simulated, and what of the scenarios was not."""
    found, left = advice.searched, ", ".join(advice.left_out) or "nothing"
    text = f"Simulated: {found.candidates:,} policies, {found.simulations:,} runs, scenarios "
    return f"{text}{', '.join(advice.scenarios)}; Kubernetes {advice.kubernetes}; left out: {left}"


def proof_text(advice: Advice) -> str:
    """Say whether real runs have shown it."""
    if advice.pick is None:
        return ""
    if not advice.proof:
        return "Not proved by real runs."
    words = [f"{one.title} on {one.scenario}: {one.verdict}" for one in advice.proof]
    return f"Rehearsed: {'; '.join(words)}."


_OF_PROOF = ("predicted", "measured", "residual", "mean residual", "in the range")
PROOF_HEADS = ("rehearsed", "verdict", "measure", *_OF_PROOF)


def proof_rows(advice: Advice) -> Iterator[tuple[str, ...]]:
    """Yield a row for each measure of each policy that was rehearsed, with the values by pair.

    Predicted: the median of the draws at the run's phase of the HPA's sync.
    """
    for one in advice.proof:
        place: tuple[str, str] = (f"{one.title} on {one.scenario}", one.verdict)
        for found in zip(*(run.measures for run in one.runs), strict=True):
            if any(row.measured is not None for row in found):
                middles = [NAMED[row.name].number(row.predicted.median) for row in found]
                measured = [row.measured_text for row in found]
                values = [
                    ", ".join(of) for of in (middles, measured, [r.residual_text for r in found])
                ]
                yield *place, found[0].heading, *values, *_mean_and_inside(found)
                place = "", ""


def _mean_and_inside(rows: Sequence[Residual]) -> tuple[str, str]:
    """Return the mean residual as a share, and how many are in the range of 90 % of real runs."""
    known = [one for one in rows if one.residual is not None]
    middles = sum(one.predicted.median or 0.0 for one in known)
    mean = f"{sum(one.residual or 0.0 for one in known) / middles:+.1%}" if middles else "–"
    return mean, f"{sum(one.is_in_range for one in known)} of {len(known)}"


def _code(text: str | None) -> str:
    return "–" if text is None else f"`{text}`"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (heads, ["---"] * len(heads), *rows):
        yield f"| {' | '.join(_escaped(cell) for cell in row)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")
