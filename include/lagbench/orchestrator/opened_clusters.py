"""Record the clusters that this state folder's commands have opened, and clean them up.

The state folder has a note from before a run or Airflow touches a cluster until that cluster is
known to be clean. ``lagbench down`` can therefore clean up after the processes that it ended, even
after a crash and from another shell. A cluster without a note is never touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lagbench.adapters.kube.kube_client import OUTAGE_SECONDS
from lagbench.core.cluster.cluster_settings import cluster_settings
from lagbench.embedded.kafka_choice import write_atomically
from lagbench.errors import LagbenchError, NotReady, StillWaiting
from lagbench.orchestrator.target import KIND, ClusterTarget

CLEAN_UP_LIMIT_SECONDS = 360
"""Deletion of two kinds of policies: 60 s each; of pods: 180 s, or more with a long grace period;
each call to Kafka: 15 s."""
APPROVE, REMOVE_WORKLOADS, BENCH_DOWN = "approve", "remove_workloads", "bench_down"
_WHERE_KUBECTL_LOOKS = "~/.kube/config"

Say = Callable[[str], None]
Opener = Literal["run", "ui"]


class OpenedCluster(BaseModel):
    """A command's access to a cluster: enough to reach it again from any shell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cluster: ClusterTarget
    api_server: str
    """Its address in the kubeconfig: a context of that name may later mean another cluster."""


@dataclass(frozen=True, slots=True)
class ClusterNote:
    """The file in the state folder that records an opened cluster."""

    path: Path

    @classmethod
    def write(cls, state_dir: Path, cluster: ClusterTarget, opened_by: Opener) -> ClusterNote:
        """Note a cluster before anything is created there; the same cluster has the same note."""
        kubeconfig = cluster.kubeconfig or str(Path(_WHERE_KUBECTL_LOOKS).expanduser())
        cluster = replace(cluster, kubeconfig=kubeconfig)
        with cluster.open_kube() as kube:
            api_server = str(kube.api_client.configuration.host)
        opened = OpenedCluster(cluster=cluster, api_server=api_server)
        text = opened.model_dump_json(indent=2) + "\n"
        sort = KIND if cluster.name == KIND else "context"
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        note = cls(_folder(state_dir) / f"{opened_by}-{sort}-{digest}.json")
        write_atomically(note.path, text, mode=0o600)
        return note

    def forget(self) -> None:
        """Remove the note: the cluster is clean."""
        self.path.unlink(missing_ok=True)

    def clean_up(self, say: Say) -> None:
        """Remove leftovers of runs from the cluster and its Kafka, and then the note."""
        opened = self._read()
        cluster, place = opened.cluster, f"{opened.cluster.name} ({opened.api_server})"
        say(f"cleaning up {place}, for {CLEAN_UP_LIMIT_SECONDS} s at most")
        try:
            with _time_limit(CLEAN_UP_LIMIT_SECONDS):
                _require_same_server(opened)
                cluster.clean_up(say)
        except LagbenchError as error:
            settings = cluster_settings(cluster.fields, where=str(self.path))
            raise NotReady(
                f"{place} is not clean: {error}\nObjects of runs may still be in namespace "
                f"{settings.namespace} and topics lagbench.* on {cluster.bootstrap_servers}. "
                "lagbench down tries again, and the next run there removes them; if that cluster "
                f"no longer exists, delete {self.path}"
            ) from error
        self.forget()
        say(f"{place} is clean")

    def _read(self) -> OpenedCluster:
        try:
            return OpenedCluster.model_validate_json(self.path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as error:
            raise NotReady(
                f"{self.path} records a cluster, but cannot be read: {error}. Check that cluster "
                "yourself, then delete the file"
            ) from error


def cluster_notes(state_dir: Path, opened_by: Opener | None = None) -> list[ClusterNote]:
    """Return the notes of clusters that may not be clean, of one sort of command or of all."""
    return [ClusterNote(path) for path in sorted(_folder(state_dir).glob(f"{opened_by or '*'}-*"))]


def clean_up_clusters(state_dir: Path, say: Say) -> None:
    """Clean up every cluster that has a note; a failure does not stop the next one."""
    failures = []
    for note in cluster_notes(state_dir):
        try:
            note.clean_up(say)
        except NotReady as error:
            failures.append(str(error))
    if failures:
        raise NotReady("\n".join(failures))


def has_removed_workloads(run_folder: Path) -> bool:
    """Return whether the run's own teardown has left nothing in the cluster."""
    last = _last_entries(run_folder).get(REMOVE_WORKLOADS)
    return last is not None and last["state"] == "finished"


def clean_up_failures(run_folder: Path) -> list[str]:
    """Return the teardowns of a finished run whose last try failed, each with its reason.

    A failed try before a successful one does not count. A rejected run has nothing to clean up.
    """
    last = _last_entries(run_folder)
    is_rejected = last.get(APPROVE, {}).get("state") == "failed"
    is_missing = REMOVE_WORKLOADS not in last and not is_rejected
    failures = [f"{REMOVE_WORKLOADS}: it did not run"] if is_missing else []
    for name in (REMOVE_WORKLOADS, BENCH_DOWN):
        entry = last.get(name)
        if entry is not None and entry["state"] != "finished":
            failures.append(f"{name}: {entry.get('detail') or 'it did not end'}")
    return failures


def _last_entries(run_folder: Path) -> dict[str, dict[str, Any]]:
    """Return the last entry of each phase in ``phases.jsonl``, by the phase's name."""
    try:
        lines = (run_folder / "phases.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    return {entry["name"]: entry for entry in map(json.loads, lines)}


def _folder(state_dir: Path) -> Path:
    return state_dir / "clusters"


def _require_same_server(opened: OpenedCluster) -> None:
    """Reject a kubeconfig that now leads elsewhere, and an API server that does not answer."""
    with opened.cluster.open_kube(patience_seconds=OUTAGE_SECONDS) as kube:
        now = str(kube.api_client.configuration.host)
        if now != opened.api_server:
            raise NotReady(
                f"{opened.cluster.kubeconfig} now points to {now}, so nothing was touched there"
            )
        kube.server_version()  # has its own time limit; the client's discovery has none


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Abort the body after ``seconds``, wherever it waits; for the main thread."""

    def expire(_signum: int, _frame: FrameType | None) -> None:
        raise StillWaiting(f"it took longer than {seconds:g} s and was stopped")

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
