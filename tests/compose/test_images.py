"""The images of pods do their work as another user, on a root that cannot be written."""

from __future__ import annotations

import pytest

from tests.compose.stack import Stack

pytestmark = pytest.mark.timeout(1800)
RESTRICTED = ("--rm", "--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges")
PROGRAMS, SPARK = "lagbench/programs:0.1.0", "lagbench/spark:0.1.0"


def test_a_program_starts_without_root_and_without_a_disk(stack: Stack) -> None:
    """The consumer's help is printed by a user that is not root and has no disk."""
    command = ("python", "-m", "lagbench.programs.consumer", "--help")

    said = stack.engine.docker("run", *RESTRICTED, PROGRAMS, *command)

    assert "lagbench.programs.consumer" in said
    assert stack.engine.docker("run", *RESTRICTED, PROGRAMS, "id", "-u").strip() == "65532"


def test_a_program_reaches_kafka(stack: Stack) -> None:
    """The client in the programs' image reads the metadata of compose's broker."""
    code = (
        "from confluent_kafka.admin import AdminClient as A; "
        "print(len(A({'bootstrap.servers': 'kafka:9092'}).list_topics(timeout=60).brokers))"
    )
    network = "--network=lagbench_default"

    said = stack.engine.docker("run", *RESTRICTED, network, PROGRAMS, "python", "-c", code)

    assert said.strip() == "1"


def test_spark_computes_without_root(stack: Stack) -> None:
    """Spark's image counts rows with nothing to write but /tmp."""
    code = (
        "from pyspark.sql import SparkSession as S; import lagbench_spark; "
        "print('rows', S.builder.master('local[1]').getOrCreate().range(1000).count())"
    )
    tools = ("--tmpfs=/tmp:exec", "--entrypoint=python")

    said = stack.engine.docker("run", *RESTRICTED, *tools, SPARK, "-c", code, limit_seconds=600)

    assert "rows 1000" in said
