"""The image of Spark, made without Docker as the programs' image is: Debian's Python and Java.

It holds what ``k8s/images/spark.Dockerfile`` puts into its image: PySpark, the Kafka connector
beside Spark's own jars, the project's code, and a name for the user that runs it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from lagbench.embedded.jars import SPARK, jar_paths
from lagbench.project import PROJECT_ROOT
from tests.cluster.rig.images import write_image, write_layer
from tests.cluster.rig.program_image import INSIDE, code_layer, debian_layer, libraries_layer

SPARK_IMAGE = "docker.io/lagbench/spark:0.1.0"
REQUIREMENTS = PROJECT_ROOT / "k8s" / "images" / "spark.txt"
_PACKAGES = ("python3", "ca-certificates", "openjdk-17-jre-headless", "procps")
_JAVA = "/usr/lib/jvm/java-17-openjdk-amd64"
_USER = 65532
_SPARK = f"{INSIDE}/libraries/pyspark"
SOURCES = {
    folder: folder
    for folder in (
        *("include/lag_scaler", "include/lagbench", "include/localkube", "include/pod_program"),
        "spark_jobs",
    )
}
SETTINGS = {
    "Env": [
        "PATH=/usr/local/bin:/usr/bin:/bin",
        f"JAVA_HOME={_JAVA}",
        f"SPARK_HOME=/{_SPARK}",
        f"PYTHONPATH=/{INSIDE}/include:/{INSIDE}/libraries:/{INSIDE}/spark_jobs",
        "PYTHONDONTWRITEBYTECODE=1",
    ],
    "User": f"{_USER}:{_USER}",
    "WorkingDir": "/tmp",  # noqa: S108 - the only folder that a pod may write
}
"""The image's config: a test holds it to the Dockerfile's."""


def prepare_spark_layers() -> None:
    """Make the layers that are cached, and fetch the connector, as far as they are not there."""
    _system_layer()
    libraries_layer(REQUIREMENTS)
    jar_paths(SPARK)


def write_spark_image(archive: Path) -> None:
    """Write the image's archive; only the layers of code and connector are made again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        connector = folder / "connector.tar"
        write_layer(connector, {f"{_SPARK}/jars/{jar.name}": jar for jar in jar_paths(SPARK)})
        code = code_layer(folder, SOURCES)
        write_image(
            archive,
            SPARK_IMAGE,
            [_system_layer(), libraries_layer(REQUIREMENTS), connector, code],
            settings=SETTINGS,
        )


def _system_layer() -> Path:
    return debian_layer("java", _PACKAGES, _name_user)


def _name_user(root: Path) -> None:
    """Give the user a name: Hadoop's code asks for it and ends when there is none."""
    with (root / "etc/passwd").open("a") as users:
        users.write(f"lagbench:x:{_USER}:{_USER}::/nonexistent:/usr/sbin/nologin\n")
