"""Read the Spark connection: the place where Spark runs, and its jars, code and runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from lagbench.errors import WrongInput
from lagbench.shown import looks_secret

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
        """Take lagbench's keys out of a connection's extra.

        :raises WrongInput: one of lagbench's keys is unknown, or its value is invalid.
        """
        ours = {k.removeprefix(PREFIX): v for k, v in extra.items() if k.startswith(PREFIX)}
        unknown = sorted(ours.keys() - cls.model_fields.keys())
        if unknown:
            raise WrongInput(
                where=where,
                field=f"{PREFIX}{unknown[0]}",
                value=ours[unknown[0]],
                allowed=", ".join(f"{PREFIX}{name}" for name in cls.model_fields),
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
    """Return where a master runs Spark.

    :raises WrongInput: the bench has no way to run Spark there.
    """
    for place, pattern in _MASTERS.items():
        if pattern.fullmatch(master):
            return place
    raise WrongInput(where=where, field="host (the master)", value=master, allowed=MASTERS)


def check_fit(
    where: str, place: SparkPlace, settings: SparkSettings, *, deploy_mode: str | None
) -> None:
    """Reject settings that cannot work where Spark runs.

    :raises WrongInput: with the setting, its value and what is allowed.
    """
    for field, value, allowed in _problems(place, settings, deploy_mode):
        raise WrongInput(where=where, field=field, value=value, allowed=allowed)


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
