"""What the Spark connection may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lagbench.core.cluster.spark_connection import (
    Here,
    SparkPlace,
    SparkSettings,
    Submission,
    check_fit,
    compose_submission,
    place_of,
    time_limit_seconds,
)
from lagbench.errors import WrongInput

WHERE = "connection spark_default"
ON_A_VOLUME = {"lagbench_image": "i:1", "lagbench_runs": "/mnt/runs", "lagbench_runs_claim": "runs"}


def _read(**extra: Any) -> SparkSettings:
    return SparkSettings.read(WHERE, extra)


@pytest.mark.parametrize(
    ("master", "place"),
    [
        ("local", SparkPlace.LOCAL),
        ("local[2]", SparkPlace.LOCAL),
        ("local[*]", SparkPlace.LOCAL),
        ("spark://master:7077", SparkPlace.STANDALONE),
        ("spark://a:7077,b:7077", SparkPlace.STANDALONE),
        ("k8s://https://10.0.0.1:6443", SparkPlace.KUBERNETES),
        ("k8s://api.example.com:443", SparkPlace.KUBERNETES),
    ],
)
def test_three_places_run_spark(master: str, place: SparkPlace) -> None:
    """The master says where."""
    assert place_of(WHERE, master) is place


@pytest.mark.parametrize(
    "master", ["yarn", "mesos://a:5050", "spark://master", "local[two]", "http://x", "", "k8s://"]
)
def test_other_masters_are_refused(master: str) -> None:
    """The message has the connection and the value."""
    with pytest.raises(WrongInput) as refused:
        place_of(WHERE, master)

    assert (refused.value.where, refused.value.value) == (WHERE, master)
    assert refused.value.field.startswith("host")


def test_the_providers_keys_are_not_ours() -> None:
    """Keys without our prefix pass; ours are read."""
    settings = _read(**{"deploy-mode": "client", "queue": "q", "lagbench_runs": "/mnt/runs/"})

    assert settings == SparkSettings(runs="/mnt/runs")


def test_jars_may_be_a_comma_list_or_a_list() -> None:
    """Both forms are the same, and an empty one says that Spark has the jars."""
    assert _read(lagbench_jars="a.jar, s3a://b/c.jar").jars == ("a.jar", "s3a://b/c.jar")
    assert _read(lagbench_jars=["a.jar"]).jars == ("a.jar",)
    assert _read(lagbench_jars="").jars == ()
    assert _read().jars is None


@pytest.mark.parametrize(
    "extra",
    [
        {"lagbench_jar": "a.jar"},
        {"lagbench_runs": "runs"},
        {"lagbench_runs": "s3://bucket/runs"},
        {"lagbench_runs": 7},
        {"lagbench_s3_endpoint": "minio:9000"},
        {"lagbench_conf": "spark.x=1"},
        {"lagbench_conf": {"executor.memory": "1g"}},
    ],
)
def test_a_wrong_value_is_named(extra: dict[str, Any]) -> None:
    """The message has the key."""
    with pytest.raises(WrongInput, check=lambda error: error.field in extra):
        _read(**extra)


@pytest.mark.parametrize(
    "key",
    ["spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword", "spark.authenticate.secret"],
)
def test_secrets_are_refused_without_being_shown(key: str) -> None:
    """A command line is no place for them, nor is the message."""
    with pytest.raises(WrongInput) as refused:
        _read(lagbench_conf={key: "hunter2"})

    assert "hunter2" not in str(refused.value)
    assert key in str(refused.value)


def test_names_of_kubernetes_secrets_are_none() -> None:
    """A setting that refers to a Secret passes."""
    conf = {"spark.kubernetes.driver.secrets.ca": "/etc/ca"}

    assert _read(lagbench_conf=conf).conf == conf


def test_conf_values_become_text() -> None:
    """Numbers and truth are written as Spark reads them."""
    conf = _read(lagbench_conf={"spark.cores.max": 4, "spark.speculation": True}).conf

    assert conf == {"spark.cores.max": "4", "spark.speculation": "true"}


@pytest.mark.parametrize(
    ("place", "extra", "mode", "field"),
    [
        (SparkPlace.LOCAL, {}, "cluster", "deploy-mode"),
        (SparkPlace.STANDALONE, {}, "cluster", "deploy-mode"),
        (SparkPlace.KUBERNETES, ON_A_VOLUME, "client", "deploy-mode"),
        (SparkPlace.LOCAL, {"lagbench_runs": "/mnt/runs"}, None, "lagbench_runs"),
        (SparkPlace.LOCAL, {"lagbench_image": "i:1"}, None, "lagbench_image"),
        (SparkPlace.STANDALONE, {"lagbench_image": "i:1"}, None, "lagbench_image"),
        (SparkPlace.STANDALONE, {"lagbench_runs_claim": "c"}, None, "lagbench_runs_claim"),
        (SparkPlace.STANDALONE, {"lagbench_s3_region": "eu"}, None, "lagbench_s3_region"),
        (SparkPlace.KUBERNETES, {}, None, "lagbench_image"),
        (SparkPlace.KUBERNETES, {"lagbench_image": "i:1"}, None, "lagbench_runs"),
        (
            SparkPlace.KUBERNETES,
            {"lagbench_image": "i:1", "lagbench_runs": "/mnt/runs"},
            None,
            "lagbench_runs_claim",
        ),
    ],
)
def test_settings_that_cannot_work_there_are_refused(
    place: SparkPlace, extra: dict[str, Any], mode: str | None, field: str
) -> None:
    """The first of them is named."""
    with pytest.raises(WrongInput) as refused:
        check_fit(WHERE, place, _read(**extra), deploy_mode=mode)

    assert refused.value.field == field


@pytest.mark.parametrize(
    ("place", "extra", "mode"),
    [
        (SparkPlace.LOCAL, {"lagbench_conf": {"spark.driver.cores": 1}}, "client"),
        (SparkPlace.STANDALONE, {"lagbench_runs": "/mnt/runs"}, None),
        (SparkPlace.KUBERNETES, ON_A_VOLUME, "cluster"),
        (
            SparkPlace.KUBERNETES,
            {"lagbench_image": "i:1", "lagbench_runs": "s3a://b", "lagbench_s3_secret": "s"},
            None,
        ),
        (
            SparkPlace.KUBERNETES,
            {
                "lagbench_image": "i:1",
                "lagbench_runs": "/runs",
                "lagbench_conf": {"spark.kubernetes.driver.volumes.nfs.r.mount.path": "/runs"},
            },
            None,
        ),
    ],
)
def test_settings_that_work_there_pass(
    place: SparkPlace, extra: dict[str, Any], mode: str | None
) -> None:
    """Nothing is raised."""
    check_fit(WHERE, place, _read(**extra), deploy_mode=mode)


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


@pytest.mark.parametrize(
    ("messages", "minutes"), [(0, 20), (1_000_000, 22), (20_000_000, 60), (500_000_000, 1020)]
)
def test_the_limit_follows_the_messages(messages: int, minutes: int) -> None:
    """Twenty minutes for a start, and two for each million messages."""
    assert time_limit_seconds(messages) == minutes * 60
