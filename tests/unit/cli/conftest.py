"""The command ``lagbench`` in an empty home."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

from lagbench.cli import main


class Answer(NamedTuple):
    """How the command has ended, and what it has written."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """Return all that was written, as words: the terminal's width breaks lines."""
        return " ".join((self.out + self.err).split())

    @property
    def joined(self) -> str:
        """Return it without spaces: a long path is broken in the middle."""
        return "".join((self.out + self.err).split())


@dataclass
class Command:
    """Runs the command in this process; ``home`` has the folders of state and runs."""

    home: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    @property
    def runs(self) -> Path:
        """Return the runs folder, which need not be there."""
        return self.home / "runs"

    @property
    def state(self) -> Path:
        """Return the state folder, which need not be there."""
        return self.home / "state"

    def __call__(self, *arguments: str) -> Answer:
        """Run it with these arguments."""
        self.capsys.readouterr()
        self.monkeypatch.setattr(sys, "argv", ["lagbench", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return Answer(int(ended.value.code or 0), *self.capsys.readouterr())


@pytest.fixture
def lagbench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Return the command, on a terminal of 200 columns."""
    home = tmp_path / "home"
    monkeypatch.setenv("LAGBENCH_STATE_DIR", str(home / "state"))
    monkeypatch.setenv("LAGBENCH_RUNS_DIR", str(home / "runs"))
    monkeypatch.setenv("COLUMNS", "200")
    return Command(home, monkeypatch, capsys)
