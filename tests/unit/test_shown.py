"""What a message shows of foreign values."""

from __future__ import annotations

import time

import pytest
import yaml

from lagbench.errors import WrongInput
from pod_program.shown import HIDDEN, looks_secret, shown

SECRETS = """
    DB_PASSWORD PGPASSWORD dbPassword MYSQL_PWD API_TOKEN AWS_SECRET_ACCESS_KEY APIKEY apiKey
    PRIVATE_KEY KEY SSL_KEY SENTRY_DSN SASL_JAAS_CONFIG AZURE_CONNECTION_STRING CREDENTIALS
    spark.hadoop.fs.s3a.secret.key spark.ssl.keyPassword consumer.env.DB_PASSWORD
    AIRFLOW__CORE__FERNET_KEY keyfile.data DB_PASS DBPWD GITHUB_PAT AUTHORIZATION
    SLACK_WEBHOOK_URL basic.auth.user.info ssl.key.pem
    spark.kubernetes.executor.secretXYZ.password
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_is_known_by_its_name(name: str) -> None:
    """Of a variable, of a setting, of a field, in each way of writing."""
    assert looks_secret(name)
    assert shown("s3cr3t", name=name) == HIDDEN


PLACES = """
    PWD OLDPWD KEY_DESERIALIZER SPRING_KAFKA_CONSUMER_KEY_DESERIALIZER TOKENIZERS_PARALLELISM
    KEYSTORE DATABASE_URL LAGBENCH_TOKEN_DURATION PASSWORD_FILE PARTITION_KEY DEDUPE_KEY
    ConsumerKey MAX_TOKENS TOKEN_BUCKET_RATE ENABLE_AUTH PASSWORDLESS
    spark.sql.sources.partitionKeys payload.key_field
    spark.kubernetes.authenticate.submission.oauthTokenFile
    spark.hadoop.fs.s3a.aws.credentials.provider
"""


@pytest.mark.parametrize("name", PLACES.split())
def test_what_says_where_a_secret_lies_is_none(name: str) -> None:
    """A file of a token, the class that reads a key."""
    assert not looks_secret(name)


@pytest.mark.parametrize(
    ("value", "is_secret"),
    [
        ("-Djavax.net.ssl.keyStorePassword=hunter2", True),
        ('{"password": "hunter2"}', True),
        ("org.apache.PlainLoginModule required password='b';", True),
        ("Endpoint=sb://x;SharedAccessKey=abc", True),
        ("-Dpassword={kafka.sasl.password}", False),
        ("password=$(PASSWORD)", False),
        ("org.example.PasswordCallback", False),
    ],
)
def test_a_password_within_a_value_is_one_under_every_name(value: str, is_secret: bool) -> None:
    """Options of a JVM, JSON, JAAS; a placeholder is none."""
    assert looks_secret("OPTS", value) == is_secret


def test_a_password_in_a_url_is_a_secret_under_every_name() -> None:
    """Also inside of a list."""
    assert looks_secret("PROXY", "http://me:pw@proxy:8080")
    assert "pw@" not in shown({"a": ["http://me:pw@proxy:8080"]})


def test_a_value_beside_a_secret_name_is_hidden() -> None:
    """As a key of a mapping, and as Kubernetes names a variable."""
    text = shown([{"name": "DB_PASSWORD", "value": "s3cr3t"}, {"token": "s3cr3t", "other": "seen"}])

    assert "s3cr3t" not in text
    assert "seen" in text


def test_a_value_is_cut_at_a_bounded_cost() -> None:
    """A file of aliases is endless when it is written out."""
    lines = [f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 9)}]" for n in range(1, 30)]
    endless = yaml.safe_load("\n".join(["b0: &b0 [x, x]", *lines]))
    began = time.perf_counter()

    for value in (endless, list(range(10_000)), "x" * 10_000, 2**40_000, [[[[[endless]]]]]):
        told = str(WrongInput(where="f" * 5000, field="k" * 5000, value=value, allowed="a" * 9000))
        assert len(told) < 5000

    assert time.perf_counter() - began < 2
