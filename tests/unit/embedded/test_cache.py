"""Files that are replaced whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lagbench.embedded.cache import write_atomically


def test_a_password_is_never_readable_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The part has its rights before it has its content: a kill in between leaves no secret."""
    modes: list[int] = []
    write = Path.write_text

    def seen(path: Path, *args: object, **kwargs: object) -> int:
        modes.append(path.stat().st_mode & 0o777)
        return write(path, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_text", seen)
    write_atomically(tmp_path / "login", "sasl.password=x", mode=0o600)
    write_atomically(tmp_path / "state", "{}")

    assert modes == [0o600, 0o600]
    assert (tmp_path / "login").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o644
    assert {path.name for path in tmp_path.iterdir()} == {"login", "state"}
