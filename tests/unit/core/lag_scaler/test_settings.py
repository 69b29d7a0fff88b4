"""A ScaledObject's metadata for the lag scaler: defaults, sources of values, refusals."""

import pickle

import pytest

from lagbench.core.lag_scaler.lag_clusters import KafkaCluster, allowed_servers_of
from lagbench.core.lag_scaler.lag_metadata import InvalidMetadata, LagSettings, parse_lag_settings
from lagbench.core.lag_scaler.lag_rule import LagRule
from lagbench.core.lag_scaler.lag_source import GroupTopic

NAMED = {
    "scalerAddress": "lagbench-lag-scaler:6000",
    "bootstrapServers": "kafka-0:9092, kafka-1:9092",
    "topic": "orders",
    "consumerGroup": "enrich",
}


def parse(environment: dict[str, str] | None = None, **metadata: str) -> LagSettings:
    """Return the settings of the object named above with more metadata."""
    return parse_lag_settings({**NAMED, **metadata}, environment)


def refused(environment: dict[str, str] | None = None, **metadata: str) -> InvalidMetadata:
    """Return the refusal."""
    with pytest.raises(InvalidMetadata) as caught:
        parse(environment, **metadata)
    return caught.value


def test_what_is_left_out_is_the_default() -> None:
    """Servers, topic and group suffice."""
    settings = parse()

    assert settings.rule == LagRule()
    assert settings.group_topic == GroupTopic("enrich", "orders")
    assert settings.source == KafkaCluster(bootstrap_servers=("kafka-0:9092", "kafka-1:9092"))
    assert settings.metric_name == "persistent-kafka-lag-orders-enrich"
    assert settings.target == 500


def test_every_option_is_read() -> None:
    """The names are those of the READMEs and of KEDA's kafka trigger."""
    settings = parse(
        lagThreshold="1000",
        activationLagThreshold="5",
        sustainSeconds="30",
        scaleUpStabilization="60",
        scaleDownStabilization="300",
        samplingInterval="2.5",
        windowSize="20",
        lagScope="total",
        lagMetric="projected",
        offsetResetPolicy="earliest",
        scaleToZeroOnInvalidOffset="true",
        excludePersistentLag="true",
        partitionLimitation="1,2,5-7",
        allowIdleConsumers="true",
        ensureEvenDistributionOfPartitions="true",
    )

    assert settings.rule == LagRule(
        lag_threshold=1000,
        activation_lag_threshold=5,
        sustain_seconds=30,
        scale_up_stabilization_seconds=60,
        scale_down_stabilization_seconds=300,
        sampling_interval_seconds=2.5,
        window_size=20,
        lag_scope="total",
        lag_metric="projected",
        offset_reset_policy="earliest",
        scale_to_zero_on_invalid_offset=True,
        exclude_persistent_lag=True,
        partition_limitation=(1, 2, 5, 6, 7),
        allow_idle_consumers=True,
        ensure_even_distribution_of_partitions=True,
    )


def test_the_environment_holds_defaults_only() -> None:
    """The original's variables fill what an object leaves out, and never override it."""
    environment = {"KAFKA_TOPIC": "other", "LAG_THRESHOLD": "7", "SUSTAIN_SECONDS": "60"}

    settings = parse(environment, lagThreshold="9")

    assert settings.group_topic.topic == "orders"
    assert settings.rule.lag_threshold == 9
    assert settings.rule.sustain_seconds == 60


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("lagThreshold", "0"),
        ("lagThreshold", "many"),
        ("activationLagThreshold", "-1"),
        ("sustainSeconds", "-5"),
        ("samplingInterval", "0.9"),
        ("windowSize", "1"),
        ("windowSize", "100000"),
        ("scaleDownStabilization", "7200"),
        ("lagScope", "topic"),
        ("lagMetric", "bytes"),
        ("offsetResetPolicy", "none"),
        ("excludePersistentLag", "yes"),
        ("partitionLimitation", "1-2-3"),
        ("partitionLimitation", "5-1"),
        ("source", "pulsar"),
        ("bootstrapServers", ","),
    ],
)
def test_a_value_that_is_not_allowed_is_named(field: str, value: str) -> None:
    """Field and value."""
    error = refused(**{field: value})

    assert (error.field, error.value) == (field, value)


def test_all_problems_are_listed_at_once() -> None:
    """Two wrong fields and a missing one make three problems."""
    error = refused(lagThreshold="x", lagScope="both", topic=" ")

    assert [problem.field for problem in error.problems] == ["topic", "lagThreshold", "lagScope"]
    assert "KAFKA_TOPIC" in str(error)
    assert pickle.loads(pickle.dumps(error)).problems == error.problems  # noqa: S301 - our own


@pytest.mark.parametrize(("size", "is_allowed"), [("12", False), ("13", True)])
def test_a_window_too_short_for_the_sustain_time_is_refused(size: str, is_allowed: bool) -> None:
    """12 samples at 10 s span 110 s and never 120 s: the original then never triggers."""
    if is_allowed:
        assert parse(windowSize=size).rule.window_size == 13
    else:
        error = refused(windowSize=size)
        assert error.field == "windowSize"
        assert "13" in error.allowed


def test_options_that_contradict_each_other_are_refused() -> None:
    """KEDA's two pairs."""
    idle = refused(limitToPartitionsWithLag="true", allowIdleConsumers="true")
    even = refused(limitToPartitionsWithLag="true", ensureEvenDistributionOfPartitions="true")

    assert idle.field == "allowIdleConsumers"
    assert even.field == "ensureEvenDistributionOfPartitions"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sustainSecond", "sustainSeconds"),
        ("lag_threshold", "lagThreshold"),
        ("windowsize", "windowSize"),
        ("topics", "topic"),
    ],
)
def test_a_misspelt_key_is_refused(key: str, meant: str) -> None:
    """Else its limit would silently be the default."""
    assert meant in refused(**{key: "3"}).allowed


def test_other_unknown_keys_are_kept_for_a_warning() -> None:
    """KEDA passes all metadata on; its own keys are known, foreign ones are listed."""
    settings = parse(enableTLS="true", team="payments", costCentreFromEnv="12")

    assert settings.unknown_keys == ("costCentreFromEnv", "team")


@pytest.mark.parametrize("key", ["password", "accessToken", "key", "keyPassword"])
def test_a_literal_secret_is_refused_and_never_shown(key: str) -> None:
    """Only by reference; the message holds the way to do it, not the secret."""
    iggy = {"source": "iggy", "serverAddress": "i:8090", "streamId": "s", "topicId": "t"}
    for more in ({}, {**iggy, "consumerGroupId": "c"}):
        error = refused(**more, **{key: "hunter2"})
        assert f"{key}FromEnv" in str(error)
        assert "hunter2" not in str(error) + repr(error.problems)


def test_a_misspelt_secret_is_not_shown() -> None:
    """``passwort`` is rejected without its value."""
    assert "hunter2" not in str(refused(passwort="hunter2"))


def test_a_login_comes_by_reference() -> None:
    """KEDA sends the resolved value under the ...FromEnv key; no text of ours shows it."""
    settings = parse(
        sasl="scram_sha512", tls="enable", usernameFromEnv="scaler", passwordFromEnv="hunter2"
    )

    source = settings.source
    assert isinstance(source, KafkaCluster)
    assert (source.security.sasl, source.security.is_tls) == ("scram_sha512", True)
    assert source.security.username == "scaler"
    assert "hunter2" not in repr(settings) + str(settings) + source.name


def test_sasl_without_a_login_is_refused() -> None:
    """The rules of KEDA's kafka trigger hold."""
    assert "username" in refused(sasl="plaintext").allowed


def test_the_servers_login_goes_to_its_own_cluster_only() -> None:
    """An object that names another address gets no password of ours."""
    environment = {
        "KAFKA_BROKERS": "kafka-0:9092,kafka-1:9092",
        "KAFKA_SASL": "plaintext",
        "KAFKA_USERNAME": "scaler",
        "KAFKA_PASSWORD": "hunter2",
    }

    own = parse(environment, bootstrapServers="kafka-1:9092, kafka-0:9092")
    foreign = refused(environment, bootstrapServers="evil:9092")

    assert isinstance(own.source, KafkaCluster)
    assert own.source.security.username == "scaler"
    assert "username" in foreign.allowed


def test_equal_clusters_are_equal() -> None:
    """Objects on one cluster share its client; another login is another client."""
    first = parse(lagThreshold="1", usernameFromEnv="a", passwordFromEnv="b", sasl="plaintext")
    second = parse(lagThreshold="2", usernameFromEnv="a", passwordFromEnv="b", sasl="plaintext")
    third = parse(usernameFromEnv="a", passwordFromEnv="c", sasl="plaintext")

    assert first.source == second.source
    assert hash(first.source) == hash(second.source)
    assert first.source != third.source


@pytest.mark.parametrize(("zero", "wakes"), [("true", True), ("false", False)])
def test_scale_to_zero_without_a_commit_has_iggys_meaning_for_iggy_alone(
    zero: str, wakes: bool
) -> None:
    """KEDA's kafka trigger counts 0 whatever waits; Iggy's looks at what waits."""
    iggy = {"source": "iggy", "serverAddress": "i:8090", "streamId": "s", "topicId": "t"}
    login = {"consumerGroupId": "c", "username": "u", "passwordFromEnv": "p"}
    kafka = {"bootstrapServers": "k:9092", "topic": "t", "consumerGroup": "c"}
    flag = {"scaleToZeroOnInvalidOffset": zero}

    assert parse_lag_settings({**iggy, **login, **flag}).rule.wakes_for_backlog is wakes
    assert not parse_lag_settings({**kafka, **flag}).rule.wakes_for_backlog


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({f"k{number}": "" for number in range(200)}, "metadata"),
        ({"topic": "t" * 250}, "topic"),
        ({"consumerGroup": "g" * 256}, "consumerGroup"),
        ({"bootstrapServers": ",".join(f"kafka-{n}:9092" for n in range(100))}, "bootstrapServers"),
        ({"partitionLimitation": "0-2147483647"}, "partitionLimitation"),
        ({"partitionLimitation": ",".join(["0-4000"] * 1000)}, "partitionLimitation"),
    ],
)
def test_what_would_cost_much_is_refused(metadata: dict[str, str], field: str) -> None:
    """Time to compare keys, memory for partitions, labels of each series; the message is short."""
    error = refused(**metadata)

    assert error.field == field
    assert len(str(error)) < 500


@pytest.mark.parametrize(
    "servers",
    ["PLAINTEXT://kafka:9092", "kafka:9092/evil", "kafka:9092 evil:1", "kafka:x", "kafka@evil:1"],
)
def test_servers_in_another_form_are_refused(servers: str) -> None:
    """A client could take another host from them than the list of allowed ones."""
    assert refused(bootstrapServers=servers).field == "bootstrapServers"


def test_order_and_case_of_servers_make_no_other_cluster() -> None:
    """Each cluster costs a client."""
    written = ("kafka-1:9092,Kafka-0:9092", "kafka-0:9092, kafka-1:9092,kafka-1:9092")

    assert len({parse(bootstrapServers=servers).source for servers in written}) == 1


IGGY = {"source": "iggy", "streamId": "1", "topicId": "2", "consumerGroupId": "3"}
IGGY_LOGIN = {"username": "u", "passwordFromEnv": "p"}
OWN_KAFKA = {"KAFKA_BROKERS": "kafka", "IGGY_ADDRESS": ""}


@pytest.mark.parametrize(
    ("text", "environment", "metadata", "is_allowed"),
    [
        ("", {}, {"bootstrapServers": "any:1"}, True),
        ("", OWN_KAFKA, {"bootstrapServers": "KAFKA:9092"}, True),
        ("", OWN_KAFKA, {"bootstrapServers": "kafka:9093"}, False),
        ("", OWN_KAFKA, {**IGGY, **IGGY_LOGIN, "serverAddress": "kafka"}, False),
        ("", {"IGGY_ADDRESS": "iggy"}, {**IGGY, **IGGY_LOGIN, "serverAddress": "iggy:8090"}, True),
        ("", {"IGGY_ADDRESS": "iggy"}, {"bootstrapServers": "any:1"}, False),
        ("*", OWN_KAFKA, {"bootstrapServers": "any:1"}, True),
        ("other:9092", OWN_KAFKA, {"bootstrapServers": "kafka"}, False),
        ("*.corp:9092", {}, {"bootstrapServers": "a.corp,b.corp:9092"}, True),
        ("*.corp:9092", {}, {"bootstrapServers": "a.corp:9092,evil:9092"}, False),
        ("*.corp:9092", {}, {"bootstrapServers": "axcorp:9092"}, False),
        ("[::1]:9092, b:1", {}, {"bootstrapServers": "[::1]"}, True),
        ("b:1", {}, {"bootstrapServers": "b:12"}, False),
    ],
)
def test_objects_name_only_servers_that_the_lag_scaler_allows(
    text: str, environment: dict[str, str], metadata: dict[str, str], is_allowed: bool
) -> None:
    """The list given, else the server's own ones, else any; each server of an object counts."""
    allowed = allowed_servers_of(text, environment)
    wanted = {**NAMED, **metadata}

    if is_allowed:
        parse_lag_settings(wanted, environment, allowed_servers=allowed)
    else:
        with pytest.raises(InvalidMetadata, match="ALLOWED_BROKERS") as refusal:
            parse_lag_settings(wanted, environment, allowed_servers=allowed)
        assert refusal.value.field in {"bootstrapServers", "serverAddress"}


PASSWORD = {
    "KAFKA_BROKERS": "kafka-0:9092,kafka-1:9092",
    "KAFKA_USERNAME": "scaler",
    "KAFKA_PASSWORD": "secret",
}
SCRAM_TLS = {**PASSWORD, "KAFKA_SASL": "scram_sha512", "KAFKA_TLS": "enable"}
FILE = {"KAFKA_BROKERS": PASSWORD["KAFKA_BROKERS"], "LAGBENCH_KAFKA_CONFIG": "/kafka.properties"}
OTHER = {"bootstrapServers": "other:9092"}


@pytest.mark.parametrize(
    ("environment", "metadata", "field"),
    [
        (SCRAM_TLS, {"tls": "disable"}, "tls"),
        (SCRAM_TLS, {"sasl": "plaintext"}, "sasl"),
        (SCRAM_TLS, {"sasl": "none"}, "sasl"),
        (SCRAM_TLS, {"unsafeSsl": "true"}, "unsafeSsl"),
        (SCRAM_TLS, {"unsafeSslFromEnv": "1"}, "unsafeSsl"),
        (SCRAM_TLS, {"tls": "enable", "sasl": "scram_sha512", "unsafeSsl": "false"}, None),
        ({**SCRAM_TLS, "KAFKA_UNSAFE_SSL": "true"}, {"unsafeSsl": "true"}, None),
        (SCRAM_TLS, {**OTHER, "tls": "disable", "sasl": "none", "unsafeSsl": "true"}, None),
        (SCRAM_TLS, {"tls": "disable", "sasl": "plaintext", **IGGY_LOGIN}, None),
        ({**PASSWORD, "KAFKA_CA": "pem"}, {"sasl": "plaintext"}, "tls"),
        ({**PASSWORD, "KAFKA_CA": "pem"}, {"sasl": "plaintext", "tls": "enable"}, None),
        (PASSWORD, {"sasl": "plaintext"}, None),
        (FILE, {"unsafeSsl": "true"}, "unsafeSsl"),
        (FILE, {"tls": "disable"}, "tls"),
        (FILE, {"tls": "enable"}, None),
        ({"KAFKA_BROKERS": PASSWORD["KAFKA_BROKERS"]}, {"unsafeSsl": "true"}, None),
    ],
)
def test_the_servers_login_goes_over_no_weaker_connection_than_its_own_settings_say(
    environment: dict[str, str], metadata: dict[str, str], field: str | None
) -> None:
    """What the object states for a login of its own, or without any, is its own affair."""
    if field is None:
        parse(environment, **metadata)
    else:
        assert refused(environment, **metadata).field == field


@pytest.mark.parametrize(("tls", "field"), [("disable", "tls"), ("enable", None)])
def test_the_servers_iggy_login_goes_over_tls_if_its_own_settings_say_so(
    tls: str, field: str | None
) -> None:
    """As with Kafka."""
    environment = {"IGGY_ADDRESS": "iggy", "IGGY_ACCESS_TOKEN": "t", "IGGY_TLS": "enable"}
    metadata = {**IGGY, "serverAddress": "iggy", "tls": tls}

    if field is None:
        parse(environment, **metadata)
    else:
        assert refused(environment, **metadata).field == field
        parse({**environment, "IGGY_TLS": "disable"}, **metadata)
