"""Find the files of the catalog and the policies, by name or path.

It imports nothing heavy: the Dags list the catalog whenever they are parsed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from difflib import get_close_matches
from itertools import chain
from pathlib import Path

from lagbench.errors import WrongInput
from lagbench.project import HOME, PROJECT_ROOT, named_folder

CATALOG_VARIABLE, POLICIES_VARIABLE = "LAGBENCH_CATALOG", "LAGBENCH_POLICIES"
_SUFFIXES = (".yaml", ".yml")
_OF_A_PATH = (*_SUFFIXES, ".json")


def catalog_folder() -> Path:
    """Return the folder that holds ``scenarios/`` and ``experiments/``."""
    return named_folder(CATALOG_VARIABLE, PROJECT_ROOT / "include" / "catalog")


def policies_folder() -> Path:
    """Return the folder of the policies."""
    return named_folder(POLICIES_VARIABLE, PROJECT_ROOT / "k8s" / "policies")


def list_scenarios() -> list[str]:
    """Return the names of the catalog's scenarios."""
    return _names(catalog_folder() / "scenarios")


def list_experiments() -> list[str]:
    """Return the names of the catalog's experiments."""
    return _names(catalog_folder() / "experiments")


def list_policies() -> list[str]:
    """Return the names of the policies."""
    return _names(policies_folder())


SCENARIO_LINES = ("profile:",)
POLICY_LINES = ("kind: ScaledObject", "kind: HorizontalPodAutoscaler")
MOST_OFFERED = 100
_HEAD_BYTES = 16_384


def list_files(folders: Iterable[Path], lines: tuple[str, ...]) -> list[str]:
    """Return the paths of YAML files in folders, and in those inside, with one of ``lines``.

    At most ``MOST_OFFERED``, since the Dags read them whenever they are parsed.
    """
    found = []
    for folder in folders:
        for path in sorted(chain(folder.glob("*"), folder.glob("*/*"))):
            with suppress(OSError):  # no right to read it, or it is being deleted
                if path.suffix in _SUFFIXES and path.is_file():
                    with path.open("rb") as file:
                        head = file.read(_HEAD_BYTES).decode(errors="replace").splitlines()
                    if any(line.startswith(lines) for line in head):
                        found.append(str(path))
            if len(found) == MOST_OFFERED:
                return found
    return found


def is_path(text: str) -> bool:
    """Return whether ``text`` names a file by its path, not by a name of the catalog."""
    return "/" in text or text.lower().endswith(_OF_A_PATH)


def from_any_folder(name_or_path: str) -> str:
    """Return a path as an absolute one, for a process in another folder; a name unchanged."""
    listed = (*list_scenarios(), *list_policies())
    is_file = name_or_path not in listed and Path(name_or_path).is_file()
    if is_file or is_path(name_or_path):
        return str(Path(name_or_path).absolute())
    return name_or_path


def file_name(name_or_path: str) -> str:
    """Return a path without its folder, which says who wrote it; a name unchanged."""
    return Path(name_or_path).name if is_path(name_or_path) else name_or_path


def path_from_home(name_or_path: str) -> str:
    """Return a path below HOME from there, and another without its folder; a name unchanged."""
    if not is_path(name_or_path):
        return name_or_path
    path = Path(name_or_path).absolute()
    return from_home(path) if path.is_relative_to(HOME) else f"…/{path.name}"


def from_home(path: Path) -> str:
    """Return a path as commands name it that are called from HOME."""
    return str(path.relative_to(HOME) if path.is_relative_to(HOME) else path)


def resolved(name: str, given: str | Path) -> Path:
    """Return the file that a path leads to, its links followed."""
    try:
        return Path(given).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        allowed = f"a path that leads to a file ({error})"
        raise WrongInput(where="path", field=name, value=given, allowed=allowed) from error


def find_file(name_or_path: str | Path, folder: Path, what: str) -> Path:
    """Return the file: a path when it looks like one, else a name in ``folder``."""
    text = str(name_or_path)
    if isinstance(name_or_path, Path) or is_path(text):
        return _existing(Path(text), what)
    # The name is compared, never put into a path or a pattern: it may be any text.
    for suffix in _SUFFIXES:
        for path in (*folder.glob(f"*{suffix}"), *sorted(folder.glob(f"*/*{suffix}"))):
            if path.name == f"{text}{suffix}":
                return path
    names = _names(folder)
    close = get_close_matches(text, names, n=1, cutoff=0.5)
    meant = _inside(Path(text), what) or next(iter(close), None)
    hint = f"did you mean {meant}? " if meant else ""
    allowed = f"{hint}a path, or one of: {', '.join(names) or 'none there'}"
    raise WrongInput(where=str(folder), field=what, value=text, allowed=allowed)


def _existing(path: Path, what: str) -> Path:
    """Return the path; reject one without a file that has a near name, or a file of that kind."""
    near = _inside(path, what)
    is_beside = os.path.isdir(path.parent)  # noqa: PTH112 - any text is none, not an error
    if near is None and is_beside and not os.path.lexists(path):
        names = {one.stem: one for one in path.parent.glob("*") if one.suffix in _OF_A_PATH}
        near = names.get(next(iter(get_close_matches(path.stem, names, n=1)), ""))
    if near is None:
        return path
    told = "is a folder" if path.is_dir() else "there is no such file"
    said = f"{told}; did you mean {near}?"
    raise WrongInput(where=str(path), field=what, value=path, allowed=str(near), sentence=said)


def _inside(folder: Path, what: str) -> Path | None:
    """Return the scenario or the policy that ``lagbench new`` writes into a folder."""
    file = folder / f"{what}.yaml"
    return file if os.path.isfile(file) else None  # noqa: PTH113 - any text is none, not an error


def one_line(name: str, folder: Path) -> str:
    """Return what a file of the catalog is: its description, else its first line of comment.

    It reads no YAML: the Dags show these lines whenever they are parsed.
    """
    path = find_file(name, folder, "name")
    lines = path.read_text(errors="replace").splitlines()
    described = (line for line in lines if line.startswith("description: "))
    comments = (line for line in lines if line.startswith("# ") and "yaml-language" not in line)
    return next(iter((*described, *comments)), "").partition(" ")[2]


def _names(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*") if path.suffix in _SUFFIXES)
