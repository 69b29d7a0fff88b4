"""``python -m tests.audit [LOCK…]``: ask what is known against the versions in the locks.

uv asks the package index which of them were yanked (PEP 592), pip-audit asks OSV which have known
vulnerabilities. The exit code is 1 if an answer names a package, else 3 if a question got no
answer: what was not asked is not clean.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lagbench.project import PROJECT_ROOT

LOCKS = (
    *("requirements.txt", "requirements-dev.txt"),
    *(f"k8s/images/{n}.txt" for n in ("programs", "spark", "postgres")),
)
FOUND, NOT_ASKED = 1, 3
_UV = str(Path(sys.executable).with_name("uv"))
_YANKED_ONES = (_UV, "pip", "compile", "--no-deps", "--universal", "--python-version", "3.11")
_PIP_AUDIT = (
    _UV, "tool", "run", "--quiet", "--from", "pip-audit==2.10.1", "pip-audit",
    "--vulnerability-service", "osv", "--disable-pip", "--require-hashes", "--format", "json",
    "--requirement",
)  # fmt: skip
_WARNING = re.compile(r"^warning: `(\S+)` is yanked(.*)$", re.MULTILINE)
_LIMIT_SECONDS = 600

Run = Callable[[Sequence[str]], "subprocess.CompletedProcess[str]"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found in one lock, a line each, or why the question got no answer."""

    found: tuple[str, ...] = ()
    unanswered: str | None = None


def yanked(lock: str, run: Run) -> Answer:
    """Ask for the locked versions that the package index calls yanked, with the reason."""
    done = run([*_YANKED_ONES, lock])
    if done.returncode != 0:
        return Answer(unanswered=_last_line(done.stderr))
    return Answer(tuple(f"{name}{why}" for name, why in _WARNING.findall(done.stderr)))


def vulnerable(lock: str, run: Run) -> Answer:
    """Ask for the locked versions with known vulnerabilities, with their names."""
    done = run([*_PIP_AUDIT, lock])
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError):
        return Answer(unanswered=_last_line(done.stderr))
    found = tuple(
        f"{package['name']}=={package['version']}: {', '.join(v['id'] for v in package['vulns'])}"
        for package in packages
        if package.get("vulns")
    )
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    return Answer(found, f"not for {', '.join(skipped)}" if skipped else None)


def audit(locks: Sequence[str], run: Run, say: Callable[[str], object]) -> int:
    """Ask both questions for each lock, say what the answers are, and return the exit code."""
    codes = set()
    for question, ask in (("yanked", yanked), ("known vulnerabilities", vulnerable)):
        for lock in locks:
            answer = ask(lock, run)
            for line in answer.found:
                codes.add(FOUND)
                say(f"{question}: {line} ({lock})")
            if answer.unanswered is not None:
                codes.add(NOT_ASKED)
                say(f"{question}: not searched from {lock} on: {answer.unanswered}")
                break  # the next one would wait for the same server
        else:
            say(f"{question}: asked for {', '.join(locks)}")
    return min(codes, default=0)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*command],
            cwd=PROJECT_ROOT,
            check=False,
            capture_output=True,
            text=True,
            timeout=_LIMIT_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, NOT_ASKED, "", str(error))


if __name__ == "__main__":
    sys.exit(audit(sys.argv[1:] or LOCKS, _run, lambda line: sys.stdout.write(f"{line}\n")))
