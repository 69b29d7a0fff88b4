"""A real Kubernetes with the real KEDA in this process's network namespace, up in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.control_plane import Credentials, issue_credentials, start_control_plane
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.keda import install_keda
from tests.cluster.rig.metrics_server import start_metrics_server
from tests.cluster.rig.node import NODE, clear_node, import_image, start_node, unmount_below


@dataclass
class Rig:
    """A running cluster with one node."""

    folder: Path
    binaries: Binaries
    daemons: Daemons
    credentials: Credentials

    @classmethod
    def up(cls, folder: Path, binaries: Binaries, *, keda_log_level: str = "info") -> Rig:
        """Start everything; on a failure nothing is left."""
        folder.mkdir(parents=True, exist_ok=True)
        daemons = Daemons(folder / "logs")
        try:
            credentials = issue_credentials(folder / "pki", NODE)
            start_control_plane(daemons, binaries, credentials, folder)
            install_keda(daemons, binaries, credentials, log_level=keda_log_level)
            start_node(daemons, binaries, credentials, folder)
            start_metrics_server(daemons, binaries, credentials)
        except BaseException:
            daemons.stop_all()
            unmount_below(folder)
            raise
        return cls(folder, binaries, daemons, credentials)

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.credentials.admin

    def import_image(self, archive: Path) -> None:
        """Give the node an image from an archive."""
        import_image(self.folder, archive)

    def down(self) -> None:
        """Remove what has containers, then end every process."""
        try:
            clear_node(self.daemons, self.credentials, self.folder)
        finally:
            self.daemons.stop_all()
