"""``lagbench advise``: the cheapest policy that holds an SLO, searched, and proved if asked."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lagbench.cli.options import (
    A_LIMIT,
    JsonOption,
    SettingsOption,
    SloOption,
    TargetOption,
    TargetSettingsOption,
    asked_cell,
    number,
    refuse,
    require_own_names,
    slo_limits,
)
from lagbench.cli.terminal import Terminal, print_json
from lagbench.errors import ExitCode

if TYPE_CHECKING:
    from lagbench.catalog.catalog import Cell
    from lagbench.core.advice.job import Job, Outcome
    from lagbench.core.advice.model import Advice, AskedSlo
    from lagbench.core.advice.question import Question
    from lagbench.core.advice.race import Evaluate
    from lagbench.core.policy.policy import Policy
    from lagbench.results.advice_files import AdviceFolder

_LINE_SECONDS = 15.0
"""Between two lines of progress in a file."""
_LEAST_OBSERVED_SECONDS = 300.0
"""One scale-down window of the HPA."""
_SHOWN_KNOBS, _SHOWN_DROPPED = 3, 3
_CODES = {
    "advice": ExitCode.PASS,
    "no_policy": ExitCode.SLO_FAILED,
    "not_enough_data": ExitCode.UNDETERMINED,
    "pass": ExitCode.PASS,
    "fail": ExitCode.SLO_FAILED,
    "undetermined": ExitCode.UNDETERMINED,
}
"""By outcome, or by the verdict of the pick's rehearsals."""


def advise(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(help="Names from the catalog, or YAML files.", metavar="SCENARIO"),
    ] = None,
    *,
    slo: SloOption = None,
    observation: Annotated[
        str | None, typer.Option(metavar="RUN", help="The load of an observation instead.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The present policy; default: the scenarios' own.")
    ] = None,
    rival: Annotated[
        list[str] | None, typer.Option(help="Another policy to compare with; repeatable.")
    ] = None,
    pod_start: Annotated[
        float | None, number("From creation to Ready (the scenario's start_seconds).", min=0)
    ] = None,
    least: Annotated[
        int | None, typer.Option("--min", min=0, help="The least minReplicaCount.")
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", min=1, help="The most pods; default: the partitions.")
    ] = None,
    kubernetes: Annotated[
        str | None, typer.Option(help="Your Kubernetes; default: the policy's, else the bench's.")
    ] = None,
    candidates: Annotated[int, typer.Option(min=1, help="Policies to simulate.")] = 10_000,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Draws of the last stage.")] = 60,
    on: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="pool; or Spark, from 100,000 candidates on: spark, local[N], spark://HOST:PORT.",
        ),
    ] = "pool",
    folder: Annotated[
        Path | None, typer.Option(help="For the files; default: a new one in runs/_advice.")
    ] = None,
    prove: Annotated[
        bool, typer.Option("--prove", help="Rehearse pick, runner-up and present policy.")
    ] = False,
    pairs: Annotated[int, typer.Option(help="With --prove: of each: 2, 6, 8 or 12.")] = 2,
    target: TargetOption = "embedded",
    target_settings: TargetSettingsOption = None,
    settings: SettingsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Find the cheapest policy that holds an SLO, and show why, in minutes.

    Nothing is applied: the policy is a file. Exit code 1: no policy found; 4: not enough data.
    """
    from lagbench.cli.prove import prove as rehearsed
    from lagbench.cli.prove import require_provable
    from lagbench.core.advice.question import Question, check_question
    from lagbench.core.advice.search import bounds_only
    from lagbench.core.simulation.simulated_world import SimulatedEnvironment
    from lagbench.report.advice_page import write_advice
    from lagbench.results.advice_files import AdviceFolder

    console = Terminal(stderr=as_json)
    asked = _Asked.of(scenarios or [], observation, policy, settings)
    question = Question(
        scenarios=[cell.scenario for cell in asked.cells.values()],
        slos=_slos(slo),
        present=asked.present,
        rivals=_rivals(rival or []),
        environment=SimulatedEnvironment(start_up_seconds=pod_start),
        min_replicas=least,
        max_replicas=most,
        kubernetes=kubernetes or asked.kubernetes,
        budget=candidates,
        draws=(*(one for one in Question.draws if one < seeds), seeds),
    )
    check_question(question)
    master = None
    if on != "pool":
        from lagbench.embedded.spark_search import master_of

        master = master_of(on)
    place: dict[str, Any] = {"target": target, "target_settings": target_settings}
    if prove:
        known = asked.cells if asked.present is not None else ()
        require_provable(pairs, known, policy, asked.overrides, **place)
    advice = bounds_only(question)
    if asked.lacks:
        update = {"outcome": "not_enough_data", "reasons": tuple(asked.lacks), "bounds": ()}
        advice = advice.model_copy(update=update)
    if advice.bounds:
        console.say("bounds, known without a search", style="bold")
        for one in advice.bounds:
            where = f"{one.scenario}: " if len(advice.scenarios) > 1 else ""
            style = "red" if one.is_broken else ""
            console.say(f"  {where}{one.title}: {one.text}", style=style)
    names = [one.name for one in question.scenarios]
    files = AdviceFolder.create(names, at=folder, now=datetime.now(UTC))
    command = f"lagbench {shlex.join(sys.argv[1:])}"
    if advice.outcome == "advice":
        advice = files.kept(question.key) or _searched(console, question, master)
    write_advice(files, advice, present=asked.present_file, command=command)
    if prove and advice.pick is not None:
        overrides = dict(asked.overrides)
        if pod_start is not None and target == "embedded":  # a cluster's pods start as they do
            overrides["consumer.start_seconds"] = f"{pod_start:g}"
        given = {cell.scenario.name: name for name, cell in asked.cells.items()}
        advice = rehearsed(console, advice, given, overrides=overrides, pairs=pairs, **place)
        write_advice(files, advice, present=asked.present_file, command=command)
    code = _CODES[advice.outcome]
    pick = [_CODES[one.verdict] for one in advice.proof if one.role == "pick"]
    code = max([code, *pick], key=(0, 4, 1).index)
    if as_json:
        document = advice.model_dump(mode="json")
        print_json(document | {"folder": str(files.path), "exit_code": int(code)})
    else:
        _print_answer(console, question, advice, files, command)
    return code


@dataclass(frozen=True, slots=True)
class _Asked:
    """The scenarios by what was given for each, and the present policy."""

    cells: Mapping[str, Cell]  # by the name or path that was given
    present: Policy | None  # None: nothing is known of it
    overrides: Mapping[str, str]
    lacks: Sequence[str] = ()  # why an observation is not enough
    kubernetes: str | None = None  # of the observed cluster, as it is followed

    @classmethod
    def of(
        cls,
        scenarios: Sequence[str],
        observation: str | None,
        policy: str | None,
        settings: Sequence[str] | None,
    ) -> _Asked:
        """Read them.

        :raises WrongInput: there are none, or both a scenario and an observation.
        """
        from lagbench.catalog.catalog import parse_settings

        if bool(scenarios) == (observation is not None):
            refuse("SCENARIO", " ".join(scenarios) or "none", "one or more, or --observation RUN")
        given, lacks, is_known = list(scenarios), list[str](), True
        kubernetes: str | None = None
        if twice := [one for one in given if given.count(one) > 1]:
            refuse("SCENARIO", twice[0], "each name once")
        if observation is not None:
            path, is_known, lacks, kubernetes = _replay(observation)
            given = [str(path)]
        # The search is at the full rates; what it finds is rehearsed at the scale that was asked.
        whole = [*(settings or ()), "rate_scale=1"]
        cells = {one: asked_cell(one, policy, None, whole)[0] for one in given}
        own = {cell.policy.where for cell in cells.values()}
        has_present = len(own) == 1 and (policy is not None or is_known)
        present = next(iter(cells.values())).policy if has_present else None
        return cls(cells, present, parse_settings(settings or ()), lacks, kubernetes)

    @property
    def present_file(self) -> bytes | None:
        """The present policy as it was given."""
        return None if self.present is None else Path(self.present.where).read_bytes()


def _replay(run: str) -> tuple[Path, bool, list[str], str | None]:
    """Return the scenario of an observation, whether its policy is known, and what it lacks.

    The last is the version of Kubernetes of its cluster, as it is followed; None: not known.
    """
    from lagbench.adapters.runs.experiment_folder import find
    from lagbench.core.hpa.controller_flags import followed_version
    from lagbench.core.kubernetes_values import HPA_SYNC_SECONDS
    from lagbench.core.measures.evidence.observed_group import OBSERVED_FIELD, Observation
    from lagbench.results.observed_run import LOAD_FILE, scenario_of_observation

    folder = find(run)
    replay = scenario_of_observation(folder)
    manifest = folder.read_json(folder.manifest)
    seen = Observation(**manifest[OBSERVED_FIELD])
    lacks = []
    rows = (folder.path / LOAD_FILE).read_text(encoding="utf-8").split()
    seconds = float(rows[-1].split(",")[0])
    if seconds < _LEAST_OBSERVED_SECONDS:
        least = f"at least {_LEAST_OBSERVED_SECONDS:g}, a scale-down window"
        lacks.append(f"{seconds:,.0f} s were observed, not {least} (--for of observe)")
    if (gap := seen.longest_gap_seconds or 0.0) > HPA_SYNC_SECONDS:
        why = f"longer than a sync of the HPA, {HPA_SYNC_SECONDS:g} s"
        lacks.append(f"a partition was not read for {gap:,.0f} s, {why}: what came then is unknown")
    if seen.pod_rate_per_second is None:
        why = f"the rate of a pod is not known: {seen.pod_rate_source}"
        lacks.append(f"{why}; --pod-rate of observe states it")
    kubernetes: str | None = None
    version = (manifest.get("cluster") or {}).get("kubernetes")
    if version is not None and manifest["fidelity"] == "kubernetes":
        kubernetes = followed_version(version)
    return replay, seen.policy is not None, lacks, kubernetes


def _rivals(given: Sequence[str]) -> dict[str, Policy]:
    """Return them by the names of their files; the present policy has one, too."""
    from lagbench.catalog.catalog import load_policy, policy_file

    names = [policy_file(one).stem for one in given]
    require_own_names("--rival", ["present", *names])
    return dict(zip(names, map(load_policy, given), strict=True))


def _slos(given: Sequence[str] | None) -> list[AskedSlo]:
    from lagbench.core.advice.model import AskedSlo
    from lagbench.core.simulation.predicted_slos import SIMULATED_SLOS

    found = []
    for name, limit in slo_limits(given, known=SIMULATED_SLOS).items():
        if isinstance(limit, bool) or not isinstance(limit, int | float):
            refuse("--slo", f"{name}={limit}", f"{A_LIMIT}: a number")
        found.append(AskedSlo(name=name, limit=limit))
    if not found:
        refuse("--slo", "none", f"{A_LIMIT}; of {', '.join(SIMULATED_SLOS)}")
    return found


def _searched(console: Terminal, question: Question, master: str | None) -> Advice:
    """Search, with a line of progress, and simulate each line that the pick changes."""
    from lagbench.core.advice.changes import with_changes
    from lagbench.core.advice.search import expected_simulations, search

    expected, began = expected_simulations(question), time.monotonic()
    done, said = 0, 0.0
    with evaluator(master, console.say) as run, console.status("") as status:
        every, tell = (0.2, status.update) if console.is_terminal else (_LINE_SECONDS, console.say)

        def evaluate(jobs: Sequence[Job]) -> Iterator[Outcome]:
            nonlocal done, said
            for outcome in run(jobs):
                done += len(outcome.rows)
                passed = time.monotonic() - began
                if passed - said >= every:
                    said, left = passed, passed / done * max(0, expected - done)
                    tell(f"simulated {done:,} of about {expected:,} runs, {left:,.0f} s left")
                yield outcome

        advice = search(question, evaluate)
        advice = with_changes(question, advice, evaluate)
    seconds = round(time.monotonic() - began, 1)
    effort = advice.searched.model_copy(update={"seconds": seconds})
    return advice.model_copy(update={"searched": effort})


@contextmanager
def evaluator(master: str | None, say: Callable[[str], object]) -> Iterator[Evaluate]:
    """Provide what runs the jobs: processes here, or Spark, whose outcomes are kept."""
    from lagbench.adapters.process.simulation_pool import simulation_pool

    with simulation_pool() as pool:
        if master is None:
            yield pool
            return
        from lagbench.embedded.spark_search import SparkSearch
        from lagbench.project import state_dir

        yield SparkSearch(master, state_dir() / "outcomes", pool, say)


def _print_answer(
    console: Terminal, question: Question, advice: Advice, files: AdviceFolder, command: str
) -> None:
    """Print the answer in a dozen lines."""
    from lagbench.results import advice_files
    from lagbench.results.advice_files import headline, named, numbers, proof_text, prove_command

    style = {"advice": "green", "no_policy": "red"}.get(advice.outcome, "yellow")
    console.say(headline(advice), style=f"bold {style}")
    for reason in advice.reasons:
        console.say(f"  {reason}")
    pick = advice.pick
    if pick is not None:
        heads = ("", "policy", advice.slo.slo.title, "real run, 90 %", "pod-minutes", "flips")
        rows = [
            (f"{'✓' if one.holds else '✗'} {title}", one.name, *numbers(advice, one))
            for title, one in named(advice)
        ]
        console.table(heads, rows, right=heads[2:])
    if advice.proof:
        proved = advice_files.PROOF_HEADS
        console.table(proved, list(advice_files.proof_rows(advice)), right=proved[3:])
    console.facts("", _facts(question, advice))
    if advice.searched.candidates:
        console.say(advice_files.effort_text(advice))
    console.say(f"page: {files.page}")  # a table would cut it
    if pick is not None:
        first, more = question.scenarios[0].name, proof_text(advice)
        shown = shlex.quote(str(files.policy))
        steps = [f"lagbench policy check {shown}"]
        if not advice.proof:
            steps.append(prove_command(command, files))
        console.say(f"{more} Next{'' if advice.proof else f', to rehearse it on {first}'}:")
        for step in steps:
            console.say(f"  {step}")


def _facts(question: Question, advice: Advice) -> Iterator[tuple[str, str]]:
    from lagbench.core.simulation.model_error import error_text

    if advice.pick is not None and advice.pick.knobs:
        knobs = [
            f"{name} {value}" for name, value in advice.pick.knobs.items() if value is not None
        ]
        yield "pick", ", ".join(knobs)
    if advice.margin is not None:
        yield "margin", advice.margin.text
    if advice.pick is not None and question.error_of(advice.slo.name) is not None:
        yield "model error", error_text([advice.slo.name])
    if advice.importance:
        most = [f"{one.knob} {one.share:.0%}" for one in advice.importance[:_SHOWN_KNOBS]]
        yield f"decides {advice.slo.slo.title}", ", ".join(most)
    for one in advice.dropped[:_SHOWN_DROPPED]:
        yield "dropped", f"{one.candidate}: {one.reason}"
    if len(advice.dropped) > _SHOWN_DROPPED:
        yield "", f"and {len(advice.dropped) - _SHOWN_DROPPED} more"
