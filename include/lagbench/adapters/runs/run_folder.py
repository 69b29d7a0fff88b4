"""The run folder: everything that one run measured, and nothing that names the machine.

Files are replaced atomically, so a reader never sees half a file and a crash leaves the old one.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lagbench.core.scenario.run_names import RunNames
from lagbench.errors import NotReady
from lagbench.project import HOME, named_folder

RUNS_DIR_VARIABLE = "LAGBENCH_RUNS_DIR"
SECOND_GROUP = "second_group"
"""The name of a second group's folder in its run's; no run id has an underscore."""
LANDED_TABLES = ("events", "processed", "telemetry")
"""The tables that hold the run's topics, in the order of ``RunNames.topics``."""
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A line of the list of runs; ``None`` where the run has not written that yet."""

    run_id: str
    created_at: int | None
    scenario: str | None
    policy: str | None
    seed: int | None
    fidelity: str | None
    verdict: str | None


class FolderFile:
    """The place of a file or folder in one that has a ``path``."""

    def __init__(self, name: str) -> None:
        """Take its name."""
        self._name = name

    def __get__(self, folder: Any, owner: object) -> Path:
        """Return its path."""
        path: Path = folder.path / self._name
        return path


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The files of one run below ``path``."""

    path: Path

    manifest = FolderFile("manifest.json")  # versions, seed, fidelity, conf and instants of the run
    scenario = FolderFile("scenario.yaml")
    # The user's samples, as the run sends them; only a run with a payload has the file.
    payload = FolderFile("payload.txt")
    # The user's Deployment, as it was given. It may hold Secrets with their values: only its owner
    # may read it. Only a run of consumer.kind own has these two.
    own_deployment = FolderFile("own-deployment.yaml")
    own_consumer = FolderFile("own-consumer.yaml")  # the user's Deployment, as it was applied
    policy = FolderFile("policy.yaml")
    conf = FolderFile("conf.json")
    prediction = FolderFile("prediction.json")
    fence = FolderFile("fence.json")  # end and committed offsets after everything had stopped
    autoscaler = FolderFile("autoscaler.json")  # the last state of the policy in KEDA and the HPA
    tables = FolderFile("tables")
    accounting = FolderFile("accounting.json")
    measures = FolderFile("measures.json")
    verdict = FolderFile("verdict.json")
    junit = FolderFile("junit.xml")
    report = FolderFile("report.html")
    phases = FolderFile("phases.jsonl")  # the phases of the run, a line for each begin and end
    live = FolderFile(
        "live.jsonl"
    )  # the run while it is in progress, a line a second (``core/live``)
    logs = FolderFile("logs")

    @classmethod
    def create(cls, run_id: str, root: Path | None = None) -> RunFolder:
        """Make the folder of ``run_id``; one that exists already is taken as it is.

        :raises WrongInput: the run id is none.
        """
        folder = cls((root or runs_root()) / RunNames(run_id).run_id)
        for directory in (folder.path, folder.tables, folder.logs):
            directory.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def is_second(self) -> bool:
        """True for the folder of a run's second group, which is a run folder, too."""
        return self.path.name == SECOND_GROUP

    @property
    def run_id(self) -> str:
        """The run's id: the name of its folder, which holds that of a second group."""
        return self.path.parent.name if self.is_second else self.path.name

    @property
    def reference(self) -> str:
        """The folder as commands name it: the run's id, with the second group after a slash."""
        return f"{self.run_id}/{SECOND_GROUP}" if self.is_second else self.run_id

    @property
    def names(self) -> RunNames:
        """The names of the folder's group in Kafka and Kubernetes."""
        return RunNames(self.run_id, is_second=self.is_second)

    @property
    def second(self) -> RunFolder | None:
        """The folder of the run's second group; None: the run has one group, or this is it."""
        folder = RunFolder(self.path / SECOND_GROUP)
        return folder if folder.scenario.is_file() and not self.is_second else None

    @property
    def groups(self) -> tuple[RunFolder, ...]:
        """The folders of the run's groups, of which this is the first."""
        return (self,) if self.second is None else (self, self.second)

    def make_second(self) -> RunFolder:
        """Make the folder of the run's second group."""
        folder = RunFolder(self.path / SECOND_GROUP)
        for directory in (folder.path, folder.tables, folder.logs):
            directory.mkdir(parents=True, exist_ok=True)
        return folder

    def swapped_policy(self, number: int) -> Path:
        """Return the file of the policy that action ``number`` puts in place of another."""
        return self.path / f"policy-{number}.yaml"

    def table(self, name: str) -> Path:
        """Return the folder of table ``name``."""
        return self.tables / name

    def copy(self, kind: str) -> Path:
        """Return the folder of a topic's copy, made when the accounting failed."""
        return self.path / "copies" / kind

    def has_copy(self, kind: str) -> bool:
        """Return whether that copy is whole: it takes its name when it is."""
        return self.copy(kind).is_dir()

    def has_landed(self) -> bool:
        """Return whether Spark has landed every topic; it marks a table that is whole."""
        return all((self.table(name) / "_SUCCESS").exists() for name in LANDED_TABLES)

    def read_json(self, path: Path | str) -> dict[str, Any]:
        """Return the content of one of the folder's JSON files."""
        path = self.path / path  # an absolute path stays as it is
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as missing:
            raise NotReady(f"run {self.reference} has no {self._name(path)} yet") from missing
        except ValueError as broken:
            raise NotReady(
                f"run {self.reference}: {self._name(path)} is not JSON: {broken}"
            ) from broken
        if not isinstance(content, dict):
            raise NotReady(f"run {self.reference}: {self._name(path)} is not an object of JSON")
        return content

    def read_model(self, path: Path | str, model: type[Model]) -> Model:
        """Return the content of one of the folder's JSON files as its model."""
        try:
            return model.model_validate(self.read_json(path))
        except ValidationError as wrong:
            first = wrong.errors()[0]
            place = ".".join(map(str, first["loc"])) or "its content"
            raise NotReady(
                f"run {self.reference}: {self._name(self.path / path)} has another form than this"
                f" version writes: {place}: {first['msg']}; lagbench report {self.reference} writes"
                " verdict and measures again"
            ) from wrong

    def read_text(self, path: Path | str) -> str:
        """Return the text of one of the folder's files."""
        path = self.path / path
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError as missing:
            raise NotReady(f"run {self.reference} has no {self._name(path)} yet") from missing

    def write_json(self, path: Path | str, content: Any) -> None:
        """Replace ``path`` by ``content`` as JSON, atomically; NaN and infinity are rejected."""
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        self.write_text(path, text + "\n")

    def write_text(self, path: Path | str, text: str, *, mode: int = 0o644) -> None:
        """Replace ``path`` by ``text``, atomically; by default all users may read it."""
        self.write_bytes(path, text.encode(), mode=mode)

    def write_bytes(self, path: Path | str, content: bytes, *, mode: int = 0o644) -> None:
        """Replace ``path`` by ``content``, atomically; by default all users may read it."""
        path = self.path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
            Path(name).chmod(mode)  # mkstemp makes 0600; a report is there to be read
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    def update_manifest(self, **fields: Any) -> dict[str, Any]:
        """Merge ``fields`` into the manifest's top level and return the whole."""
        known = self.read_json(self.manifest) if self.manifest.exists() else {}
        merged: dict[str, Any] = {**known, **fields}
        self.write_json(self.manifest, merged)
        return merged

    def summary(self) -> RunSummary:
        """Return the run's line in the list of runs."""
        manifest = self._json_or_empty(self.manifest)
        created_at = manifest.get("created_at")
        return RunSummary(
            run_id=self.run_id,
            created_at=created_at if isinstance(created_at, int) else None,
            scenario=manifest.get("scenario"),
            policy=manifest.get("policy"),
            seed=manifest.get("seed"),
            fidelity=manifest.get("fidelity"),
            verdict=self._json_or_empty(self.verdict).get("status"),
        )

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.path)) if path.is_relative_to(self.path) else path.name

    def _json_or_empty(self, path: Path) -> Mapping[str, Any]:
        """Serve the list of runs, which must show a run that died in mid-write, too."""
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return content if isinstance(content, dict) else {}


def runs_root() -> Path:
    """Return where run folders live: LAGBENCH_RUNS_DIR, else ``runs`` in the project."""
    return named_folder(RUNS_DIR_VARIABLE, HOME / "runs").absolute()


def list_runs(root: Path | None = None) -> list[RunSummary]:
    """Return all runs, oldest first."""
    root = root or runs_root()
    found = [
        RunFolder(path).summary()
        for path in (root.iterdir() if root.is_dir() else ())
        if path.is_dir() and not path.name.startswith((".", "_"))  # no run id does
    ]
    return sorted(found, key=lambda summary: (summary.created_at or 0, summary.run_id))
