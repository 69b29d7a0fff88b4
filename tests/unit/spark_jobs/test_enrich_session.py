"""What the driver rejects before it starts a JVM."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from lagbench.errors import WrongInput
from lagbench_enrich.options import EnrichOptions, parse_options
from lagbench_enrich.session import open_session

VARIABLES = {
    "POD_NAME": "driver",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka:9092",
    "SPARK_STREAM_MASTER_URL": "spark://10.0.0.1:7077",
    "SPARK_STREAM_CHECKPOINT": "/checkpoint/a-run",
}


def options(jars: str) -> EnrichOptions:
    """Return the options of a driver with these jars."""
    return parse_options(["--run-id=a-run"], {**VARIABLES, "SPARK_STREAM_JARS": jars})


def test_a_missing_jar_is_named(tmp_path: Path) -> None:
    """The first one that is not there, with what it should be."""
    (tmp_path / "a.jar").touch()

    with pytest.raises(WrongInput, match=r"b\.jar.*spark-sql-kafka-0-10"):
        open_session(options(f"{tmp_path}/a.jar,{tmp_path}/b.jar"))


def test_an_image_without_the_connector_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without jars of its own the driver needs the connector beside Spark's."""
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "__init__.py"))

    with pytest.raises(WrongInput, match="spark-sql-kafka-0-10"):
        open_session(options(""))
