"""The folders that variables of the environment name."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lagbench.errors import NotReady, WrongInput
from lagbench.project import make_state_dir, named_folder


@pytest.mark.parametrize("named", ["/dev/null", "/dev/null/runs", "a" * 5000])
def test_what_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Before anything is read from it or written to it."""
    monkeypatch.setenv("SOME_DIR", named)

    with pytest.raises(WrongInput) as refused:
        named_folder("SOME_DIR", Path("/default"))

    assert (refused.value.field, refused.value.value) == ("SOME_DIR", named)


def test_a_folder_need_not_be_there_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Empty is not named."""
    monkeypatch.setenv("SOME_DIR", str(tmp_path / "new" / "runs"))
    assert named_folder("SOME_DIR", Path("/default")) == tmp_path / "new" / "runs"

    monkeypatch.setenv("SOME_DIR", "")
    assert named_folder("SOME_DIR", Path("/default")) == Path("/default")


NOBODY = 65534


@pytest.fixture
def shared() -> Iterator[Path]:
    """Provide a folder that every user may enter and read: pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def reads(path: Path) -> bool:
    """Return whether another user lists or reads a path."""
    done = subprocess.run(
        ["/bin/ls" if path.is_dir() else "/bin/cat", path],
        user=NOBODY,
        group=NOBODY,
        extra_groups=(),
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


@pytest.mark.skipif(os.getuid() != 0, reason="only root can act as another user")
@pytest.mark.parametrize("exists", [False, True])
def test_another_user_reads_nothing_in_it(shared: Path, exists: bool) -> None:
    """Also in one that an earlier version made for all to read."""
    state_dir = shared / "state"
    if exists:
        state_dir.mkdir(mode=0o755)
    else:
        make_state_dir(state_dir)
    log = state_dir / "supervisor.log"
    log.write_text("topics")
    assert reads(log) == exists

    make_state_dir(state_dir)

    assert reads(shared)
    assert not reads(state_dir)
    assert not reads(log)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_user_is_refused_also_if_it_is_closed(tmp_path: Path) -> None:
    """Somebody who knows the name may have made it before."""
    tmp_path.chmod(0o700)
    os.chown(tmp_path, NOBODY, NOBODY)

    with pytest.raises(NotReady, match="LAGBENCH_STATE_DIR"):
        make_state_dir(tmp_path)


def test_a_folder_of_all_users_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    """Somebody named /tmp: to make that private would stop the machine's other programs."""
    tmp_path.chmod(0o1777)

    with pytest.raises(NotReady, match="LAGBENCH_STATE_DIR"):
        make_state_dir(tmp_path)

    assert tmp_path.stat().st_mode & 0o7777 == 0o1777
