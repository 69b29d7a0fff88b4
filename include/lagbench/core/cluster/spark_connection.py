"""Read the Spark connection: the place where Spark runs, and its jars, code and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from lagbench.errors import WrongInput
from pod_program.shown import looks_secret

PREFIX = "lagbench_"
"""Keys of the connection's extra that start so are ours; all others are the provider's."""
MASTERS = "local, local[N], local[*], spark://HOST:PORT, k8s://https://HOST:PORT"
_ON_CLUSTERS_ONLY = ("spark_jobs", "runs", "python", "bootstrap_servers")
_ON_KUBERNETES_ONLY = ("image", "runs_claim", "service_account", "s3_secret", "kubeconfig")
_FOR_S3_ONLY = ("s3_endpoint", "s3_region", "s3_secret")


class SparkPlace(StrEnum):
    """The place where Spark runs."""

    LOCAL = "local"
    STANDALONE = "spark://"
    KUBERNETES = "k8s://"


_MASTERS = {
    SparkPlace.LOCAL: re.compile(r"local(\[(\d+|\*)(,\d+)?\])?"),
    SparkPlace.STANDALONE: re.compile(r"spark://[^/:,]+:\d+(,[^/:,]+:\d+)*"),
    SparkPlace.KUBERNETES: re.compile(r"k8s://(https?://)?[^/\s]+(/\S*)?"),
}


class SparkSettings(BaseModel):
    """The connection's settings; ``None`` where it says nothing.

    jars: paths or URIs as Spark sees them; an empty list says that Spark has them already.
    spark_jobs: folder or URI of the entry script.
    runs: root of the run folders as Spark sees it, an absolute path or ``s3a://BUCKET/PREFIX``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    jars: tuple[str, ...] | None = None
    spark_jobs: str | None = None
    runs: str | None = None
    python: str | None = None
    bootstrap_servers: str | None = None
    conf: dict[str, str] = {}
    s3_endpoint: str | None = None
    s3_region: str | None = None
    image: str | None = None
    runs_claim: str | None = None
    service_account: str | None = None
    s3_secret: str | None = None
    kubeconfig: str | None = None

    @field_validator("jars", mode="before")
    @classmethod
    def _split(cls, given: object) -> object:
        return (
            [part.strip() for part in given.split(",") if part.strip()]
            if isinstance(given, str)
            else given
        )

    @field_validator("runs")
    @classmethod
    def _is_a_root(cls, runs: str | None) -> str | None:
        if runs is None or re.fullmatch(r"/[^/].*|s3a://[^/]+(/.*)?", runs):
            return runs and runs.rstrip("/")
        raise ValueError("an absolute path, or s3a://BUCKET/PREFIX")

    @field_validator("s3_endpoint")
    @classmethod
    def _is_an_endpoint(cls, endpoint: str | None) -> str | None:
        parts = urlsplit(endpoint or "http://host")
        if parts.scheme in {"http", "https"} and parts.netloc and not parts.path.strip("/"):
            return endpoint
        raise ValueError("http://HOST:PORT or https://HOST:PORT")

    @field_validator("conf", mode="before")
    @classmethod
    def _are_spark_settings(cls, conf: object) -> object:
        if not isinstance(conf, Mapping):
            raise ValueError('an object of Spark settings: {"spark.executor.memory": "2g"}')  # noqa: TRY004 - pydantic maps ValueError
        for key, value in conf.items():
            if not str(key).startswith("spark."):
                raise ValueError(f"names that start with spark.; {key} does not")
            # A command line is seen by everyone on the machine, and Spark logs its configuration.
            if looks_secret(str(key), value):
                raise ValueError(
                    f"settings without secrets, because a command line shows them; {key} looks "
                    "like one: put it into spark-defaults.conf, the environment or a Secret"
                )
        return {
            str(key): str(value).lower() if isinstance(value, bool) else str(value)
            for key, value in conf.items()
        }

    @property
    def runs_in_s3(self) -> bool:
        """The run folders lie in an object store."""
        return self.runs is not None and self.runs.startswith("s3a://")

    @property
    def mounts_volumes(self) -> bool:
        """Pods on Kubernetes get the run folders from a volume."""
        own = any(key.startswith("spark.kubernetes.driver.volumes.") for key in self.conf)
        return own or self.runs_claim is not None

    @classmethod
    def read(cls, where: str, extra: Mapping[str, Any]) -> Self:
        """Take lagbench's keys out of a connection's extra."""
        ours = {k.removeprefix(PREFIX): v for k, v in extra.items() if k.startswith(PREFIX)}
        unknown = sorted(ours.keys() - cls.model_fields.keys())
        if unknown:
            allowed = ", ".join(f"{PREFIX}{name}" for name in cls.model_fields)
            raise WrongInput(
                where=where, field=f"{PREFIX}{unknown[0]}", value=ours[unknown[0]], allowed=allowed
            )
        try:
            return cls.model_validate(ours)
        except ValidationError as error:
            first = error.errors()[0]
            field = PREFIX + str(first["loc"][0])
            # Of the whole object only the names: a value may be the secret that is refused.
            value = first["input"]
            shown = sorted(map(str, value)) if isinstance(value, Mapping) else value
            allowed = first["msg"].removeprefix("Value error, ")
            raise WrongInput(where=where, field=field, value=shown, allowed=allowed) from None


def place_of(where: str, master: str) -> SparkPlace:
    """Return where a master runs Spark."""
    for place, pattern in _MASTERS.items():
        if pattern.fullmatch(master):
            return place
    raise WrongInput(where=where, field="host (the master)", value=master, allowed=MASTERS)


def check_fit(
    where: str, place: SparkPlace, settings: SparkSettings, *, deploy_mode: str | None
) -> None:
    """Reject settings that cannot work where Spark runs."""
    for name, value, allowed in _problems(place, settings, deploy_mode):
        raise WrongInput(where=where, field=name, value=value, allowed=allowed)


def _problems(
    place: SparkPlace, settings: SparkSettings, deploy_mode: str | None
) -> Iterator[tuple[str, object, str]]:
    """Yield field, value and what is allowed of each setting that cannot work."""
    mode = "cluster" if place is SparkPlace.KUBERNETES else "client"
    if deploy_mode not in {None, "", mode}:
        yield "deploy-mode", deploy_mode, f"{mode} (or nothing) with a master {place.value}"
    for names, is_fitting, purpose in (
        (_FOR_S3_ONLY, settings.runs_in_s3, "only with lagbench_runs = s3a://BUCKET/PREFIX"),
        (_ON_KUBERNETES_ONLY, place is SparkPlace.KUBERNETES, "only with a k8s:// master"),
        (
            _ON_CLUSTERS_ONLY,
            place is not SparkPlace.LOCAL,
            "only with a spark:// or k8s:// master; local Spark uses this machine's own",
        ),
    ):
        for name in () if is_fitting else names:
            if getattr(settings, name) is not None:
                yield f"{PREFIX}{name}", getattr(settings, name), purpose
    if place is not SparkPlace.KUBERNETES:
        return
    if settings.image is None:
        built = "the image of driver and executors, built from k8s/images/spark.Dockerfile"
        yield "lagbench_image", None, built
    if settings.runs is None:
        at = "the path at which the volume lagbench_runs_claim is mounted"
        yield "lagbench_runs", None, f"the run folders for pods: s3a://BUCKET/PREFIX, or {at}"
    elif not settings.runs_in_s3 and not settings.mounts_volumes:
        own = "volumes of your own in lagbench_conf (spark.kubernetes.driver.volumes...)"
        claim = f"the PersistentVolumeClaim that pods mount at {settings.runs}, or {own}"
        yield "lagbench_runs_claim", None, claim


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
