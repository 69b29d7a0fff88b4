"""What is submitted, from where Spark runs and what its connection says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lagbench.core.spark.settings import SparkPlace, SparkSettings
from lagbench.core.spark.submission import Here, Submission, compose_submission

HERE = Here(
    run_folder=Path("/home/me/runs/run-1"),
    spark_jobs=Path("/home/me/spark_jobs"),
    jars=(Path("/cache/kafka.jar"), Path("/cache/token.jar")),
    code_zip=Path("/scratch/lagbench-spark.zip"),
    python="/home/me/.venv/bin/python",
    pod_template=Path("/home/me/k8s/pod.yaml"),
)


def _compose(place: SparkPlace, namespace: str | None = None, **settings: Any) -> Submission:
    given = SparkSettings.model_validate(settings)
    return compose_submission(place, given, HERE, job="pipeline", namespace=namespace)


def test_local_spark_uses_what_is_here() -> None:
    """Script, jars and run folder of this machine; no package is sent; ports need a secret."""
    submission = _compose(SparkPlace.LOCAL)

    assert submission == Submission(
        application="/home/me/spark_jobs/pipeline.py",
        run_folder="/home/me/runs/run-1",
        jars=("/cache/kafka.jar", "/cache/token.jar"),
    )


def test_a_standalone_cluster_is_sent_code_and_jars() -> None:
    """The driver is here; executors use their own Python and the run folder at the same path."""
    submission = _compose(SparkPlace.STANDALONE)

    assert submission == Submission(
        application="/home/me/spark_jobs/pipeline.py",
        run_folder="file:///home/me/runs/run-1",
        jars=("/cache/kafka.jar", "/cache/token.jar"),
        py_files=("/scratch/lagbench-spark.zip",),
        conf={
            "spark.pyspark.driver.python": "/home/me/.venv/bin/python",
            "spark.pyspark.python": "python3",
        },
    )


def test_settings_replace_what_is_here() -> None:
    """Each of jars, code, Python and runs can be said as the cluster sees it."""
    submission = _compose(
        SparkPlace.STANDALONE,
        jars="local:/opt/kafka.jar",
        spark_jobs="/mnt/code",
        runs="/mnt/runs",
        python="/opt/python",
        conf={"spark.cores.max": "4"},
    )

    assert submission.application == "/mnt/code/pipeline.py"
    assert submission.py_files == ("/mnt/code/lagbench-spark.zip",)
    assert submission.jars == ("local:/opt/kafka.jar",)
    assert submission.run_folder == "file:///mnt/runs/run-1"
    assert submission.conf["spark.pyspark.python"] == "/opt/python"
    assert submission.conf["spark.cores.max"] == "4"
    assert _compose(SparkPlace.STANDALONE, jars="").jars == ()  # Spark has the connector already


def test_an_object_store_is_named_without_credentials() -> None:
    """Endpoint and region become Hadoop's settings; buckets are part of the path."""
    submission = _compose(
        SparkPlace.STANDALONE,
        runs="s3a://bench/runs",
        s3_endpoint="http://minio:9000",
        s3_region="eu-west-1",
    )

    assert submission.run_folder == "s3a://bench/runs/run-1"
    store = {k: v for k, v in submission.conf.items() if k.startswith("spark.hadoop.")}
    assert store == {
        "spark.hadoop.fs.s3a.endpoint": "http://minio:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }


def test_pods_take_everything_from_image_and_volume() -> None:
    """On Kubernetes the driver is a pod, with the runs' claim at the given path."""
    submission = _compose(
        SparkPlace.KUBERNETES, image="lagbench/spark:0.1.0", runs="/mnt/runs", runs_claim="runs"
    )

    volume = "volumes.persistentVolumeClaim.runs"
    assert submission == Submission(
        application="local:///opt/lagbench/spark_jobs/pipeline.py",
        run_folder="file:///mnt/runs/run-1",
        deploy_mode="cluster",
        conf={
            "spark.kubernetes.container.image": "lagbench/spark:0.1.0",
            "spark.kubernetes.namespace": "lagbench",
            "spark.kubernetes.authenticate.driver.serviceAccountName": "spark",
            "spark.kubernetes.driver.podTemplateFile": "/home/me/k8s/pod.yaml",
            "spark.kubernetes.executor.podTemplateFile": "/home/me/k8s/pod.yaml",
            "spark.pyspark.python": "/opt/lagbench/bin/python",
            "spark.pyspark.driver.python": "/opt/lagbench/bin/python",
            f"spark.kubernetes.driver.{volume}.mount.path": "/mnt/runs",
            f"spark.kubernetes.driver.{volume}.options.claimName": "runs",
            f"spark.kubernetes.executor.{volume}.mount.path": "/mnt/runs",
            f"spark.kubernetes.executor.{volume}.options.claimName": "runs",
        },
    )


def test_pods_get_credentials_from_a_secret() -> None:
    """Driver and executors read both keys from the named Secret."""
    store = {"runs": "s3a://bench/runs", "s3_secret": "store"}

    conf = _compose(SparkPlace.KUBERNETES, image="i:1", **store).conf

    referred = {k: v for k, v in conf.items() if ".secretKeyRef." in k}
    assert referred == {
        f"spark.kubernetes.{role}.secretKeyRef.{name}": f"store:{name}"
        for role in ("driver", "executor")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }


def test_pods_may_take_code_and_jars_from_elsewhere() -> None:
    """A URI instead of the image's own, another namespace and account."""
    submission = _compose(
        SparkPlace.KUBERNETES,
        namespace="spark-jobs",
        image="i:1",
        runs="s3a://bench/runs",
        spark_jobs="s3a://bench/code",
        jars="s3a://bench/code/kafka.jar",
        service_account="driver",
    )

    assert submission.application == "s3a://bench/code/pipeline.py"
    assert submission.py_files == ("s3a://bench/code/lagbench-spark.zip",)
    assert submission.jars == ("s3a://bench/code/kafka.jar",)
    assert submission.conf["spark.kubernetes.namespace"] == "spark-jobs"
    account = "spark.kubernetes.authenticate.driver.serviceAccountName"
    assert submission.conf[account] == "driver"


def test_what_the_user_says_of_spark_wins() -> None:
    """A setting in lagbench_conf replaces the derived one."""
    key = "spark.kubernetes.driver.podTemplateFile"

    conf = _compose(
        SparkPlace.KUBERNETES, image="i:1", runs="s3a://b", conf={key: "/mine.yaml"}
    ).conf

    assert conf[key] == "/mine.yaml"
