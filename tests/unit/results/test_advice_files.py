"""The folder of an advice."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from tests.fakes.advices import advice

from lagbench.catalog.catalog import policy_file
from lagbench.core.policy.review.policy_review import review_policy
from lagbench.errors import WrongInput
from lagbench.results.advice_files import (
    AdviceFolder,
    ordered_like,
    prove_command,
    written,
)

NOW = datetime(2026, 11, 28, tzinfo=UTC)
COMMAND = "lagbench advise quick_spike --slo reaction_seconds=20"
PRESENT = b"# mine\n" + policy_file("lag-default").read_bytes()


def test_the_folder_has_the_policy_and_the_way_back(tmp_path: Path) -> None:
    """A later answer without a policy leaves none of an earlier one."""
    folder = AdviceFolder.create(["quick_spike"], at=tmp_path / "a", now=NOW)
    given = advice()
    folder.write(given, present=PRESENT, command=COMMAND)

    assert folder.read() == given
    assert folder.revert.read_bytes() == PRESENT
    policy = yaml.safe_load(folder.policy.read_text())
    assert given.pick is not None
    assert policy == given.pick.manifest
    assert review_policy(policy, where="advice").can_run
    assert "+  advanced:" in folder.difference.read_text().splitlines()
    assert "| pick | `lag 12` | 15.0 s |" in folder.summary.read_text()

    again_ = AdviceFolder.create(["quick_spike"], at=folder.path, now=NOW)
    again_.write(advice(outcome="no_policy", pick=None), present=PRESENT, command=COMMAND)
    left = {path.name for path in folder.path.iterdir()}
    assert left == {"advice.json", "summary.md"}


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """A folder of something else is refused."""
    (tmp_path / "notes.txt").touch()
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(WrongInput, match="--folder"):
            AdviceFolder.create(["a"], at=path, now=NOW)


@pytest.mark.parametrize("text", ["500", "*/5 8 * * *", "true", "", "a: b", "1.5", "plain", "# a"])
def test_text_stays_text(text: str) -> None:
    """Whatever YAML would read it as."""
    document = {"spec": {"triggers": [{"metadata": {"value": text}}]}}

    assert yaml.safe_load(written(document)) == document


def test_fields_keep_the_order_of_the_user() -> None:
    """New ones come last."""
    old = {"b": 1, "a": {"y": 1, "x": 2}, "list": [{"q": 1, "p": 2}]}
    new = {"c": 0, "a": {"x": 3, "y": 4}, "b": 5, "list": [{"p": 1, "q": 1}, 7]}

    assert str(ordered_like(new, old)) == str(
        {"b": 5, "a": {"y": 4, "x": 3}, "list": [{"q": 1, "p": 1}, 7], "c": 0}
    )


def test_a_command_is_extended_once() -> None:
    """The one that proves an advice has --prove already."""
    folder = AdviceFolder(Path("/a"))
    shown = f"{COMMAND} --folder /a --prove"

    assert prove_command(COMMAND, folder) == prove_command(shown, folder) == shown
