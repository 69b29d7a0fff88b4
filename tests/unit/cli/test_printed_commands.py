"""Each command that the product or a page prints is one that the command line takes."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from rich.text import Text
from tests.fakes.measured_run import quick_spike_measures
from tests.unit.cli.conftest import Command

from lagbench.catalog.catalog_files import list_scenarios
from lagbench.cli.app import app
from lagbench.cli.terminal import Terminal
from lagbench.core.scenario.slo_limits import Slos
from lagbench.core.verdict.verdict import judge
from lagbench.printed_commands import CALLED_AS, COMMAND, VERBS, called_as, runnable, wrapped
from lagbench.project import PROJECT_ROOT
from lagbench.report.next_steps import next_steps
from lagbench.report.page import environment

LINE = typer.main.get_command(app)
SCENARIOS = list_scenarios()
# In architecture.md commands are boxes of a drawing.
PAGES = [PROJECT_ROOT / "README.md", *sorted(PROJECT_ROOT.glob("docs/[!a]*.md"))]
PROGRAMS = [
    one for top in ("include", "plugins", "dags") for one in PROJECT_ROOT.glob(f"{top}/**/*.py")
]


def texts(tree: ast.Module) -> Iterator[str]:
    """Yield each text of a program that is not a docstring; a field of it is one word."""
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts |= {id(one) for one in ast.walk(node) if one is not node}
            yield "".join(
                str(one.value) if isinstance(one, ast.Constant) else "FIELD" for one in node.values
            )
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(id(node.value))
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts
        ):
            yield node.value


def of_a_sentence(words: str) -> list[str]:
    """Return the command at the begin of a sentence: up to the first word of prose."""
    taken = []
    for word in words.split():
        bare = word.rstrip("`,;:.)")
        is_verb = not taken or taken == ["policy"]
        is_argument = re.match(r"-|.*[A-Z=…]|.*\.yaml", bare) or bare in SCENARIOS
        if not is_verb and not is_argument:
            break
        taken.append(bare)
        if bare != word:
            break
    return taken


def printed() -> Iterator[Any]:
    """Yield the arguments of each command: of texts in programs, and of code on pages."""
    for path in PROGRAMS:
        for text in texts(ast.parse(path.read_text())):
            for found in COMMAND.finditer(text):
                arguments = of_a_sentence(text[found.end() :])
                yield pytest.param(arguments, id=f"{path.stem}: {' '.join(arguments)}")
    for path in PAGES:
        text = path.read_text().replace("\\\n", " ")
        lines = "\n".join(re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL))
        found = re.findall(r"^ *(?:\.venv/bin/)?lagbench (.*)$", lines, re.MULTILINE)
        if path.name == "README.md":  # its table of questions
            found += re.findall(r"`lagbench (\w+ [^`]+)`", text)
        for line in found:
            command = re.sub(r" \[.*\]", "", line).split("  ")[0]  # behind it: what it does
            words = shlex.split(command, comments=True)
            yield pytest.param(words, id=f"{path.name}: {' '.join(words)}")


def of_ci() -> Iterator[str]:
    """Yield each shell line of the recipes for GitHub and GitLab, which are YAML."""
    page = (PROJECT_ROOT / "docs" / "ci.md").read_text()
    for block in re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        recipe = yaml.safe_load(block)
        for job in recipe.get("jobs", recipe).values():
            yield from job.get("script", ())
            yield from (step["run"] for step in job.get("steps", ()) if "run" in step)


def parse(arguments: list[str]) -> None:
    """Parse a command line as the command does, without running it."""
    context = LINE.make_context("lagbench", list(arguments))
    command, group = LINE, context
    while hasattr(command, "resolve_command"):
        rest = [*group._protected_args, *group.args]
        name, command, rest = command.resolve_command(group, rest)
        group = command.make_context(name, rest, parent=group)


@pytest.mark.parametrize(
    "arguments", sorted({one.id: one for one in printed()}.values(), key=lambda one: one.id)
)
def test_a_printed_command_parses(arguments: list[str]) -> None:
    """Its verb, options and required arguments are those of the command line."""
    parse(arguments)


def test_the_recipes_for_a_pull_request_parse() -> None:
    """Both check, simulate with a verdict, or rehearse; what else they run installs lagbench."""
    lines = [line.partition("/bin/lagbench ")[2] for line in of_ci()]
    for line in filter(None, lines):
        parse(shlex.split(line))

    verbs = [line.split()[0] for line in lines if line]
    assert verbs == ["policy", "simulate", "run", "simulate", "run"]
    assert all("--fail" in line for line in lines if line.startswith("simulate"))


@pytest.mark.parametrize("limit", [{}, {"reaction_seconds": 5}, {"rebalance_dip_percent": 1}])
def test_the_next_steps_of_a_report_parse(limit: dict[str, float]) -> None:
    """Of a run that passes, and of one that fails."""
    measures = quick_spike_measures()
    verdict = judge(measures, Slos(drain_seconds=120).model_copy(update=limit))
    conf = {"scenario": "my own/a.yaml", "policy": None, "overrides": {"name": "a b"}}
    steps = next_steps(measures, verdict, conf, cheaper=["lag-default"])
    commands = [part for one in steps for part in one.command.split("; ") if "lagbench" in part]

    assert len(commands) >= 1 + bool(limit)
    for command in commands:
        parse(shlex.split(command)[1:])


def test_help_loads_nothing_heavy() -> None:
    """It is there at once."""
    heavy = ("airflow", "confluent_kafka", "kubernetes", "numpy", "pyarrow", "pydantic", "yaml")
    code = f"import sys, lagbench.cli.app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_arguments_of_every_verb_have_one_form() -> None:
    """In the usage line each is one word in capitals."""
    groups = (LINE, LINE.commands["policy"])  # type: ignore[attr-defined]
    verbs = [verb for group in groups for verb in group.commands.values()]
    arguments = [one for verb in verbs for one in verb.params if not one.opts[0].startswith("-")]

    assert len(arguments) > 10
    wrong = [one.name for one in arguments if not re.fullmatch("[A-Z]+", one.metavar or "")]
    assert wrong == []


def test_every_verb_is_known() -> None:
    """A new one is printed as it runs, too."""
    assert set(VERBS) == set(LINE.commands)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("program", "is_on_path", "called"),
    [
        ("lagbench", False, "lagbench"),
        (".venv/bin/lagbench", False, ".venv/bin/lagbench"),
        ("{here}/.venv/bin/lagbench", False, ".venv/bin/lagbench"),
        ("{here}/.venv/bin/lagbench", True, "lagbench"),
        ("../my bench/bin/lagbench", False, "'../my bench/bin/lagbench'"),
        ("/elsewhere/bin/pytest", False, "lagbench"),
    ],
)
def test_a_command_is_called_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, is_on_path: bool, called: str
) -> None:
    """By its path from here, unless it is the one that the shell finds."""
    own = tmp_path / ".venv" / "bin" / "lagbench"
    own.parent.mkdir(parents=True)
    own.touch(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(own.parent) if is_on_path else "/none")

    assert called_as(program.format(here=tmp_path)) == called


def test_what_is_printed_and_written_runs_from_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a line, a coloured line, a table and a report; in no path, and not twice."""
    monkeypatch.setenv(CALLED_AS, ".venv/bin/lagbench")
    console = Terminal(width=100)
    shown = ("see lagbench run hello", Text("lagbench show a; lagbench-airflow"))
    with console.capture() as captured:
        console.print(*shown)
        console.table(["do"], [["lagbench up"]])
    page = environment().from_string("{{ do }}").render(do="lagbench account a")

    written = f"{captured.get()}{page}"
    assert re.findall(r"\S*lagbench\S* \w+", written) == [
        f".venv/bin/lagbench {verb}" for verb in ("run", "show", "up", "account")
    ]
    assert runnable(written) == written


def test_a_new_scenario_names_its_own_commands(lagbench: Command, tmp_path: Path) -> None:
    """By the path of the file from where the user stands, quoted."""
    folder = tmp_path / "my own"
    answer = lagbench("new", str(folder))

    lines = [one.strip("# ") for one in (folder / "scenario.yaml").read_text().splitlines()]
    commands = [one.split("  ")[0] for one in lines if one.startswith("lagbench")]
    assert [shlex.split(one)[2] for one in commands] == [str(folder / "scenario.yaml")] * 2
    assert [one in answer.out for one in commands] == [True, True]


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize(
    ("text", "command"),
    [
        (
            "no verdict; lagbench report spike-20261128-0b1 writes a page that says why",
            3,
        ),
        (
            "kept; lagbench run 'my own/a.yaml' --policy lag-quick --seed 1 repeats the run",
            7,
        ),
    ],
)
def test_a_message_fits_and_a_command_in_it_is_whole(text: str, command: int, width: int) -> None:
    """The prefix counts; only a command may be longer than the line."""
    lines = wrapped(text, width, "NotReady ")
    whole = next(line for line in lines if "lagbench" in line)

    assert " ".join(" ".join(lines).split()) == f"NotReady {text}"
    assert [line for line in lines if len(line) > width and line != whole] == []
    assert len(shlex.split(whole[whole.index("lagbench") :])) >= command
