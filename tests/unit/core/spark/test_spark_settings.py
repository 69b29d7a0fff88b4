"""What the Spark connection may say."""

from __future__ import annotations

from typing import Any

import pytest

from lagbench.core.spark.settings import SparkPlace, SparkSettings, check_fit, place_of
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
