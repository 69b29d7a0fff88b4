"""Define the settings of a daemon's pod and read them, before a JVM is started."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

from pydantic import Field

from lagbench.core.scenario.flag import Flag
from lagbench.core.scenario.scenario import ConsumerFlags
from lagbench.core.scenario.spark_consumer import SparkFlags
from lagbench.errors import WrongInput
from lagbench.programs.flags import CommandLine, Settings
from lagbench.programs.run_flags import RunFlags
from lagbench.shared_with_spark.spark_authentication import SECRET_VARIABLE

_HIGHEST_PORT = 65_535


class DaemonSettings(ConsumerFlags, SparkFlags, RunFlags, Settings):
    """A daemon of lagbench's consumer under test on Spark."""

    role: Literal["master", "worker"] = Field(description="what the pod is")
    telemetry_topic: str = Field(
        description="topic of the telemetry; default: the run's, by --run-id"
    )
    master: Annotated[str, Flag(variables=("SPARK_STREAM_MASTER_URL",))] = Field(
        "", description="spark://HOST:PORT of the master, for a worker"
    )
    spark_version: Annotated[str, Flag(variables=("SPARK_STREAM_VERSION",))] = Field(
        "", description="version of Spark in every pod of the run; empty: not compared"
    )
    rpc_port: Annotated[int, Flag(variables=("PORT_RPC",))] = Field(
        0, ge=0, le=_HIGHEST_PORT, description="port of the daemon's RPC; 0 takes a free one"
    )
    page_port: Annotated[int, Flag(variables=("PORT_PAGE",))] = Field(
        ge=0, le=_HIGHEST_PORT, description="port of the daemon's own page, which has its state"
    )
    pod_name: Annotated[str, Flag(variables=("POD_NAME",), is_variable_only=True)] = Field(
        description="the pod's metadata.name"
    )
    bind_address: Annotated[str, Flag(variables=("BIND_ADDRESS",), is_variable_only=True)] = Field(
        "127.0.0.1", description="the pod's own address"
    )


def parse_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> DaemonSettings:
    """Return the settings that ``arguments`` and the pod's environment state.

    :raises WrongInput: a flag is unknown, missing or out of range, or the pod has another Spark, or
        no secret.
    """
    line = CommandLine(DaemonSettings, module="lagbench.programs.spark_daemon")
    settings = line.read(arguments, environment)
    if settings.role == "worker" and not settings.master:
        raise line.missing("master")
    require_version(settings.spark_version, where="spark_daemon")
    secret_of(environment, where="spark_daemon")
    return settings


def secret_of(environment: Mapping[str, str], *, where: str) -> str:
    """Return the secret of the run's Spark.

    :raises WrongInput: there is none, or an empty one, which everybody knows.
    """
    secret = environment.get(SECRET_VARIABLE, "")
    if not secret:
        allowed = "a secret that all pods of the run share, from a Secret"
        raise WrongInput(where=where, field=SECRET_VARIABLE, value=secret, allowed=allowed)
    return secret


def require_version(wanted: str, *, where: str) -> None:
    """Reject a pod whose Spark differs from that of the run's other pods.

    Spark compares no versions: tasks would fail later, with errors of serialisation.

    :raises WrongInput: it differs, or there is none.
    """
    try:
        own = version("pyspark")
    except PackageNotFoundError:
        own = "none"
    if wanted and own != wanted:
        raise WrongInput(
            where=where,
            field="SPARK_STREAM_VERSION",
            value=f"pyspark {own} in this pod",
            allowed=f"{wanted}, as in the other pods of the run: use one image for all of them",
        )
