"""A conf that only the command line can have written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagbench.errors import WrongInput
from lagbench.orchestrator.sealed_conf import SEALED, break_seal, read_sealed, seal

CONF: dict[str, Any] = {
    "scenario": "/home/me/mine.yaml",
    "run_id": "a",
    "keep_bench": True,
    "overrides": {"consumer.env.MODE": "hush"},
}


def test_a_sealed_conf_is_read_once(tmp_path: Path) -> None:
    """Airflow gets its name; the values are in a file of its owner alone."""
    told = seal(tmp_path, CONF, dag_run="cli__a")

    assert "hush" not in str(told)
    assert "/home/me" not in str(told)
    assert (told["run_id"], told["keep_bench"], told["scenario"]) == ("a", True, "mine.yaml")
    file = tmp_path / SEALED / told[SEALED]
    assert [one.stat().st_mode & 0o777 for one in (file.parent, file)] == [0o700, 0o600]
    assert read_sealed(tmp_path, told[SEALED], dag_run="cli__a") == CONF
    with pytest.raises(WrongInput):
        read_sealed(tmp_path, told[SEALED], dag_run="cli__a")


def test_another_dag_run_cannot_take_a_seal(tmp_path: Path) -> None:
    """Its name is in the conf of a run that waits; that run still gets it."""
    name = seal(tmp_path, CONF, dag_run="cli__a")[SEALED]

    with pytest.raises(WrongInput):
        read_sealed(tmp_path, name, dag_run="manual__1")

    assert read_sealed(tmp_path, name, dag_run="cli__a") == CONF


def forged(name: str, root: Path) -> object:
    """Return what a conf of the REST API may name in place of a seal."""
    folder, outside, good = root / SEALED, root / "outside", "0" * 32
    outside.write_text('{"scenario": "/etc/passwd"}')
    outside.chmod(0o600)
    folder.mkdir(mode=0o700)
    (folder / "x.json").write_text("{}")
    match name:
        case "link":
            (folder / good).symlink_to(outside)
        case "readable by others":
            (folder / good).write_text("{}")
        case "folder of others":
            (folder / good).write_text("{}")
            (folder / good).chmod(0o600)
            folder.chmod(0o770)
        case "fifo":
            import os

            os.mkfifo(folder / good, 0o600)
        case "no name":
            return "x.json"
        case "above":
            return "../outside"
        case "whole path":
            return str(outside)
        case "list":
            return ["x.json"]
    return good


@pytest.mark.parametrize(
    "name",
    [
        "link",
        "readable by others",
        "folder of others",
        "fifo",
        "no name",
        "above",
        "whole path",
        "list",
        "none there",
    ],
)
def test_a_conf_cannot_claim_to_be_the_command_line_s(tmp_path: Path, name: str) -> None:
    """Only a private file directly in that folder is one."""
    claimed = forged(name, tmp_path)

    with pytest.raises(WrongInput) as refused:
        read_sealed(tmp_path, claimed, dag_run="cli__a")

    assert refused.value.field == SEALED


def test_a_seal_that_no_run_has_read_is_broken(tmp_path: Path) -> None:
    """Also twice: the run may have read it."""
    told = seal(tmp_path, CONF, dag_run=None)

    break_seal(tmp_path, told[SEALED])
    break_seal(tmp_path, told[SEALED])

    assert list((tmp_path / SEALED).iterdir()) == []
