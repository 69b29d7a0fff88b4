"""A ScaledObject's metadata for the lag scaler: defaults, sources of values, refusals."""

import pickle

import pytest

from lag_scaler.addresses import IggyServer, KafkaCluster, allowed_servers_of
from lag_scaler.metadata import InvalidMetadata, LagSettings, parse_lag_settings
from lag_scaler.offsets import GroupTopic
from lag_scaler.rule import LagRule

NAMED = {
    "scalerAddress": "lagbench-lag-scaler:6000",
    "bootstrapServers": "kafka-0:9092, kafka-1:9092",
    "topic": "orders",
    "consumerGroup": "enrich",
}
IGGY = {
    "source": "iggy",
    "serverAddress": "iggy:8090",
    "streamId": "shop",
    "topicId": "orders",
    "consumerGroupId": "enrich",
}
IGGY_LOGIN = {"usernameFromEnv": "scaler", "passwordFromEnv": "very-secret"}


def parse(environment: dict[str, str] | None = None, **metadata: str) -> LagSettings:
    """Return the settings of the object named above with more metadata."""
    return parse_lag_settings({**NAMED, **metadata}, environment)


def refused(environment: dict[str, str] | None = None, **metadata: str) -> InvalidMetadata:
    """Return the refusal."""
    with pytest.raises(InvalidMetadata) as caught:
        parse(environment, **metadata)
    assert "very-secret" not in str(caught.value) + repr(caught.value.problems)
    assert len(str(caught.value)) < 800
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
    written = {
        "lagThreshold": "1000",
        "activationLagThreshold": "5",
        "sustainSeconds": "30",
        "scaleUpStabilization": "60",
        "scaleDownStabilization": "300",
        "samplingInterval": "2.5",
        "windowSize": "20",
        "lagScope": "total",
        "lagMetric": "projected",
        "offsetResetPolicy": "earliest",
        "scaleToZeroOnInvalidOffset": "true",
        "excludePersistentLag": "true",
        "partitionLimitation": "1,2,5-7",
        "allowIdleConsumers": "true",
        "ensureEvenDistributionOfPartitions": "true",
    }

    assert parse(**written).rule == LagRule(
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
    assert (settings.rule.lag_threshold, settings.rule.sustain_seconds) == (9, 60)


LIMITED = {"limitToPartitionsWithLag": "true"}


@pytest.mark.parametrize(
    ("field", "value", "more"),
    [
        ("lagThreshold", "0", {}),
        ("lagThreshold", "many", {}),
        ("activationLagThreshold", "-1", {}),
        ("sustainSeconds", "-5", {}),
        ("sustainSeconds", "inf", {}),
        ("samplingInterval", "0.1", {}),
        ("windowSize", "1", {}),
        ("windowSize", "100000", {}),
        ("windowSize", "12", {}),  # 12 samples at 10 s span 110 s and never 120 s
        ("windowSize", "480", {"samplingInterval": "0.25"}),
        ("scaleDownStabilization", "7200", {}),
        ("lagScope", "topic", {}),
        ("lagMetric", "bytes", {}),
        ("offsetResetPolicy", "none", {}),
        ("excludePersistentLag", "yes", {}),
        ("allowIdleConsumers", "true", LIMITED),
        ("ensureEvenDistributionOfPartitions", "true", LIMITED),
        ("partitionLimitation", "1-2-3", {}),
        ("partitionLimitation", "5-1", {}),
        ("partitionLimitation", "0-2147483647", {}),
        ("partitionLimitation", ",".join(["0-4000"] * 1000), {}),
        ("source", "pulsar", {}),
        ("unsafeSsl", "perhaps", {}),
        ("sasl", "gssapi", {}),
        ("tls", "on", {}),
        ("topic", "t" * 250, {}),
        ("consumerGroup", "g" * 256, {}),
        ("bootstrapServers", ",", {}),
        ("bootstrapServers", ",".join(f"kafka-{n}:9092" for n in range(100)), {}),
        # a client could take another host from them than the list of allowed ones
        ("bootstrapServers", "PLAINTEXT://kafka:9092", {}),
        ("bootstrapServers", "kafka:9092/evil", {}),
        ("bootstrapServers", "kafka:9092 evil:1", {}),
        ("bootstrapServers", "kafka:x", {}),
        ("bootstrapServers", "kafka@evil:1", {}),
        *[
            ("serverAddress", address, {**IGGY, **IGGY_LOGIN})
            for address in ("iggy:", "iggy:0", "iggy:65536", "tcp://iggy:8090", ":8090", "[::1]x")
        ],
        ("serverAddress", "127.0.0.1\0.kafka.svc:8090", {**IGGY, **IGGY_LOGIN}),
        ("serverAddress", "h ost:8090", {**IGGY, **IGGY_LOGIN}),
        ("tls", "on", {**IGGY, **IGGY_LOGIN}),
        ("tls", "disable", {**IGGY, **IGGY_LOGIN, "caFromEnv": "PEM"}),
        ("streamId", "", {**IGGY, **IGGY_LOGIN}),
    ],
)
def test_a_value_that_is_not_allowed_is_named(field: str, value: str, more: dict[str, str]) -> None:
    """Field and value; what would cost much to compare or to keep is refused, too."""
    error = refused(**{**more, field: value})

    assert (error.field, error.value) == (field, value)


def test_all_problems_are_listed_at_once() -> None:
    """Two wrong fields and a missing one make three problems; too many keys are one."""
    error = refused(lagThreshold="x", lagScope="both", topic=" ")

    assert [problem.field for problem in error.problems] == ["topic", "lagThreshold", "lagScope"]
    assert "KAFKA_TOPIC" in str(error)
    assert pickle.loads(pickle.dumps(error)).problems == error.problems  # noqa: S301 - our own
    assert refused(**{f"k{number}": "" for number in range(200)}).field == "metadata"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("sustainSecond", "sustainSeconds"),
        ("lag_threshold", "lagThreshold"),
        ("windowsize", "windowSize"),
        ("topics", "topic"),
        ("passwort", "password"),
    ],
)
def test_a_misspelt_key_is_refused(key: str, meant: str) -> None:
    """Else its limit would silently be the default; the value of a secret is not shown."""
    assert meant in refused(**{key: "very-secret" if key == "passwort" else "3"}).allowed


def test_other_unknown_keys_are_kept_for_a_warning() -> None:
    """KEDA passes all metadata on; its own keys are known, foreign ones are listed."""
    settings = parse(enableTLS="true", team="payments", costCentreFromEnv="12")

    assert settings.unknown_keys == ("costCentreFromEnv", "team")


@pytest.mark.parametrize("key", ["password", "accessToken", "key", "keyPassword"])
@pytest.mark.parametrize("more", [{}, IGGY])
def test_a_literal_secret_is_refused(key: str, more: dict[str, str]) -> None:
    """Only by reference: the message holds the way to do it."""
    assert f"{key}FromEnv" in str(refused(**more, **{key: "very-secret"}))


def test_a_login_comes_by_reference() -> None:
    """KEDA sends the resolved value under the ...FromEnv key; no text of ours shows it."""
    settings = parse(sasl="scram_sha512", tls="enable", **IGGY_LOGIN)

    source = settings.source
    assert isinstance(source, KafkaCluster)
    assert (source.login.sasl, source.login.is_tls) == ("scram_sha512", True)
    assert source.login.username == "scaler"
    assert "very-secret" not in repr(settings) + str(settings) + source.name
    assert "username" in refused(sasl="plaintext").allowed


def test_the_servers_login_goes_to_its_own_cluster_only() -> None:
    """An object that names another address gets no password of ours."""
    environment = {
        "KAFKA_BROKERS": "kafka-0:9092,kafka-1:9092",
        "KAFKA_SASL": "plaintext",
        "KAFKA_USERNAME": "scaler",
        "KAFKA_PASSWORD": "very-secret",
    }

    own = parse(environment, bootstrapServers="kafka-1:9092, kafka-0:9092")
    foreign = refused(environment, bootstrapServers="evil:9092")

    assert isinstance(own.source, KafkaCluster)
    assert own.source.login.username == "scaler"
    assert "username" in foreign.allowed


def test_equal_clusters_share_a_client() -> None:
    """Whatever the order and case of their servers; another login is another client."""
    login = {"usernameFromEnv": "a", "sasl": "plaintext"}
    first, second = (parse(lagThreshold=n, passwordFromEnv="b", **login) for n in "12")

    assert hash(first.source) == hash(second.source)
    assert first.source == second.source != parse(passwordFromEnv="c", **login).source
    written = ("kafka-1:9092,Kafka-0:9092", "kafka-0:9092, kafka-1:9092,kafka-1:9092")
    assert len({parse(bootstrapServers=servers).source for servers in written}) == 1


@pytest.mark.parametrize(("zero", "wakes"), [("true", True), ("false", False)])
def test_scale_to_zero_without_a_commit_has_iggys_meaning_for_iggy_alone(
    zero: str, wakes: bool
) -> None:
    """KEDA's kafka trigger counts 0 whatever waits; Iggy's looks at what waits."""
    flag = {"scaleToZeroOnInvalidOffset": zero}

    assert parse_lag_settings({**IGGY, **IGGY_LOGIN, **flag}).rule.wakes_for_backlog is wakes
    assert not parse(**flag).rule.wakes_for_backlog


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("iggy", "iggy:8090"),
        ("iggy.prod:9000", "iggy.prod:9000"),
        ("[::1]:9000", "[::1]:9000"),
        ("[::1]", "[::1]:8090"),
        ("::1", "[::1]:8090"),
    ],
)
def test_an_iggy_server_is_a_host_and_maybe_a_port(text: str, address: str) -> None:
    """The topic is written stream/topic; TLS is off unless asked for."""
    found = parse_lag_settings(
        {**IGGY, **IGGY_LOGIN, "serverAddress": text}, {"KAFKA_TLS": "enable"}
    )

    assert found.group_topic == GroupTopic("enrich", "shop/orders")
    assert isinstance(found.source, IggyServer)
    assert (found.source.servers, found.source.is_tls) == ((address,), False)
    assert "very-secret" not in repr(found) + found.source.model_dump_json()


def test_iggys_tls_takes_an_authority_by_reference() -> None:
    """``tls`` and ``caFromEnv`` of the object, or IGGY_TLS and IGGY_CA of the server."""
    own = {"IGGY_ADDRESS": "iggy:8090", "IGGY_ACCESS_TOKEN": "very-secret", "IGGY_TLS": "enable"}
    for metadata, environment in (
        ({**IGGY_LOGIN, "tls": "enable", "caFromEnv": "PEM"}, {}),
        ({}, {**own, "IGGY_CA": "PEM"}),
    ):
        source = parse_lag_settings({**IGGY, **metadata}, environment).source
        assert isinstance(source, IggyServer)
        assert (source.is_tls, source.ca) == (True, "PEM")


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"accessTokenFromEnv": "very-secret"}, "accessToken"),
        ({"passwordFromEnv": ""}, "password"),
        ({"passwordFromEnv": "very-secret" * 30}, "password"),
        ({"password": "very-secret"}, "password"),
        ({"serverAddress": "root:very-secret@iggy"}, "serverAddress"),
    ],
)
def test_one_whole_way_to_log_in_to_iggy_is_needed(changes: dict[str, str], field: str) -> None:
    """User and password, or a token; both, halves and none are rejected without the secret."""
    problems = refused(**{**IGGY, **IGGY_LOGIN, **changes}).problems

    assert field in [problem.field for problem in problems]


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
