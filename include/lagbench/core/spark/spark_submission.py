"""Compose a submission from the Spark connection: the job's place, settings, run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from lagbench.core.spark.spark_connection import SparkPlace, SparkSettings

CODE_ZIP = "lagbench-spark.zip"
"""The package of the jobs and what of lagbench they import, beside the entry script."""

DEFAULT_NAMESPACE = "lagbench"

DEFAULT_SERVICE_ACCOUNT = "spark"  # k8s/base/spark

# Where k8s/images/spark.Dockerfile puts them; the connector is among the image's own jars.
_IMAGE_JOBS = "local:///opt/lagbench/spark_jobs"

_IMAGE_PYTHON = "/opt/lagbench/bin/python"

_VOLUME = "persistentVolumeClaim.runs"

_START_SECONDS = 20 * 60

_SECONDS_PER_MILLION = 2 * 60


@dataclass(frozen=True, slots=True)
class Here:
    """The files and addresses of the submitting machine."""

    run_folder: Path
    spark_jobs: Path
    jars: tuple[Path, ...]
    code_zip: Path
    python: str
    pod_template: Path
    run: str = ""
    """The run folder's place below the folder of all runs; empty: its name."""


@dataclass(frozen=True, slots=True)
class Submission:
    """The arguments of one spark-submit, without the job's own."""

    application: str
    run_folder: str
    deploy_mode: str | None = None
    jars: tuple[str, ...] = ()
    py_files: tuple[str, ...] = ()
    conf: dict[str, str] = field(default_factory=dict)


def compose_submission(
    place: SparkPlace, settings: SparkSettings, here: Here, *, job: str, namespace: str | None
) -> Submission:
    """Return how ``job`` is submitted; ``namespace`` is the connection's own, if it names one."""
    if place is SparkPlace.KUBERNETES:
        return _on_kubernetes(settings, here, job, namespace)
    jars = settings.jars if settings.jars is not None else tuple(map(str, here.jars))
    if place is SparkPlace.LOCAL:
        return Submission(
            application=str(here.spark_jobs / f"{job}.py"),
            run_folder=str(here.run_folder),
            jars=jars,
            conf=settings.conf,
        )
    # The driver is here and hands jars and code to the executors.
    conf = {"spark.pyspark.driver.python": here.python}
    conf["spark.pyspark.python"] = settings.python or "python3"
    own = settings.spark_jobs
    return Submission(
        application=f"{own}/{job}.py" if own else str(here.spark_jobs / f"{job}.py"),
        run_folder=_run_folder(settings, here),
        jars=jars,
        py_files=(f"{own}/{CODE_ZIP}" if own else str(here.code_zip),),
        conf={**conf, **_s3(settings), **settings.conf},
    )


def _on_kubernetes(
    settings: SparkSettings, here: Here, job: str, namespace: str | None
) -> Submission:
    """Everything is in the image or behind a URI: the driver is a pod, too."""
    account = settings.service_account or DEFAULT_SERVICE_ACCOUNT
    conf = {
        "spark.kubernetes.container.image": str(settings.image),
        "spark.kubernetes.namespace": namespace or DEFAULT_NAMESPACE,
        "spark.kubernetes.authenticate.driver.serviceAccountName": account,
        "spark.kubernetes.driver.podTemplateFile": str(here.pod_template),
        "spark.kubernetes.executor.podTemplateFile": str(here.pod_template),
        "spark.pyspark.python": settings.python or _IMAGE_PYTHON,
        "spark.pyspark.driver.python": settings.python or _IMAGE_PYTHON,
    }
    for role in ("driver", "executor"):
        if settings.runs_claim is not None:
            volume = f"spark.kubernetes.{role}.volumes.{_VOLUME}"
            conf[f"{volume}.mount.path"] = str(settings.runs)
            conf[f"{volume}.options.claimName"] = settings.runs_claim
        if settings.s3_secret is not None:
            for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                conf[f"spark.kubernetes.{role}.secretKeyRef.{key}"] = f"{settings.s3_secret}:{key}"
    jobs = settings.spark_jobs
    return Submission(
        application=f"{jobs or _IMAGE_JOBS}/{job}.py",
        run_folder=_run_folder(settings, here),
        deploy_mode="cluster",
        jars=settings.jars or (),
        py_files=(f"{jobs}/{CODE_ZIP}",) if jobs else (),
        conf={**conf, **_s3(settings), **settings.conf},
    )


def _run_folder(settings: SparkSettings, here: Here) -> str:
    """Return the run's URI; a plain path would mean HDFS where Hadoop's default is that."""
    run = here.run or here.run_folder.name
    if settings.runs_in_s3:
        return f"{settings.runs}/{run}"
    folder = Path(settings.runs) / run if settings.runs else here.run_folder
    return f"file://{folder}"


def _s3(settings: SparkSettings) -> dict[str, str]:
    """Return the settings of Hadoop's S3 client; credentials are never among them."""
    if not settings.runs_in_s3:
        return {}
    conf = {}
    if settings.s3_endpoint is not None:
        conf["spark.hadoop.fs.s3a.endpoint"] = settings.s3_endpoint
        # An endpoint of one's own seldom has a name for each bucket.
        conf["spark.hadoop.fs.s3a.path.style.access"] = "true"
        plain = settings.s3_endpoint.startswith("http://")
        conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] = "false" if plain else "true"
    if settings.s3_region is not None:
        conf["spark.hadoop.fs.s3a.endpoint.region"] = settings.s3_region
    return conf


def time_limit_seconds(messages: int) -> float:
    """Return the limit of one try, in seconds: 20 minutes, and 2 minutes a million messages.

    The first part is for a start of Spark with images and volumes on a busy cluster. The second is
    ten times what two cores need.
    """
    return _START_SECONDS + messages / 1_000_000 * _SECONDS_PER_MILLION
