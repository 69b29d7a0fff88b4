"""A real Kubernetes with the real KEDA in this process's network namespace, up in seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.rig import keda, node
from tests.cluster.rig.binaries import Binaries
from tests.cluster.rig.control_plane import (
    Credentials,
    issue_credentials,
    start_api_server,
    start_control_plane,
)
from tests.cluster.rig.daemons import Daemons
from tests.cluster.rig.metrics_server import start_metrics_server
from tests.cluster.rig.program_image import PROGRAMS, write_program_image
from tests.cluster.rig.spark_image import SPARK_IMAGE, write_spark_image


@dataclass
class Rig:
    """A running cluster with one node, and what can go wrong with it.

    What a test stops it starts again; pods and their containers stay through all of it.
    """

    folder: Path
    binaries: Binaries
    daemons: Daemons
    credentials: Credentials

    @classmethod
    def up(cls, folder: Path, binaries: Binaries) -> Rig:
        """Start everything; on a failure nothing is left."""
        folder.mkdir(parents=True, exist_ok=True)
        daemons = Daemons(folder / "logs")
        try:
            credentials = issue_credentials(folder / "pki", node.NODE)
            rig = cls(folder, binaries, daemons, credentials)
            start_control_plane(daemons, binaries, credentials, folder)
            keda.install_keda(daemons, binaries, credentials)
            node.start_node(daemons, binaries, credentials, folder)
            start_metrics_server(daemons, binaries, credentials)
        except BaseException:
            daemons.stop_all()
            node.unmount_below(folder)
            raise
        return rig

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's kubeconfig."""
        return self.credentials.admin

    @property
    def kubectl(self) -> str:
        """Return the path of the cluster's own kubectl."""
        return self.binaries.path("kubectl")

    def import_image(self, archive: Path) -> None:
        """Give the node an image from an archive."""
        node.import_image(self.folder, archive)

    def import_programs(self) -> str:
        """Give the node the programs' image, made from the working tree; returns its name."""
        self._import_written(write_program_image)
        return PROGRAMS

    def import_spark(self) -> str:
        """Give the node the image of Spark, likewise; returns its name."""
        self._import_written(write_spark_image)
        return SPARK_IMAGE

    def _import_written(self, write: Callable[[Path], object]) -> None:
        archive = self.folder / "image.tar"
        write(archive)
        self.import_image(archive)
        archive.unlink()

    @contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Have nobody answer at the API server's port for the time of the block."""
        self.daemons.stop("kube-apiserver")
        try:
            yield
        finally:
            start_api_server(self.daemons, self.binaries, self.credentials)

    @contextmanager
    def without_keda(self) -> Iterator[None]:
        """Stop operator and adapter for the time of the block: objects stay, nobody acts on them.

        The webhooks continue: a pod's restart does not take all three down.
        """
        self.daemons.stop("keda-adapter")
        self.daemons.stop("keda-operator")
        try:
            yield
        finally:
            keda.start_operator(self.daemons, self.binaries, self.credentials)
            keda.start_adapter(self.daemons, self.binaries, self.credentials)
            keda.wait_until_served(self.daemons, self.credentials)

    def restart_keda_operator(self) -> None:
        """End KEDA's operator and start it again; it has forgotten everything but its objects."""
        self.daemons.stop("keda-operator")
        keda.start_operator(self.daemons, self.binaries, self.credentials)

    def down(self) -> None:
        """Remove what has containers, then end every process."""
        try:
            node.clear_node(self.daemons, self.credentials, self.folder)
        finally:
            self.daemons.stop_all()
