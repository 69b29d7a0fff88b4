"""Each trigger type: its parameters, what KEDA refuses of them, and its record."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from tests.fakes.triggers import read_trigger

from lagbench.core.keda.triggers.cron_trigger import CronTrigger, ScheduleError, parse_schedule
from lagbench.core.keda.triggers.trigger_parameters import RunSources, TriggerRefused, TriggerSource
from lagbench.core.keda.triggers.trigger_types import TRIGGER_TYPES
from lagbench.errors import WrongInput

KAFKA = {"bootstrapServers": "b:9092", "consumerGroup": "g", "topic": "t"}

SCRAM = {"sasl": "scram_sha512", "username": "u", "password": "p-secret"}

ADDRESS = {"scalerAddress": "scaler:6000"}

LONDON = {
    "timezone": "Europe/London",
    "start": "0 8 * * 1-5",
    "end": "0 18 * * 1-5",
    "desiredReplicas": "5",
}

PROMETHEUS = {
    "serverAddress": "http://prometheus:9090",
    "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich"})',
    "threshold": "500",
}

WRITTEN = {"kafka": KAFKA, "cron": LONDON, "external": ADDRESS, "memory": {"value": "50"}}


@pytest.mark.parametrize(
    ("kind", "changes", "auth", "parameter"),
    [
        # Beside the recorded refusals; TLS comes before SASL, the user before the password.
        ("kafka", {"lagThreshold": "1.0"}, {}, "lagThreshold"),
        ("kafka", {"consumerGroup": " "}, {}, "consumerGroup"),
        ("kafka", {}, {"tls": "enable", "cert": "c"}, "key"),
        ("kafka", {}, {"tls": "enable", "key": "k", "sasl": "plaintext"}, "cert"),
        ("kafka", {}, {"sasl": "plaintext"}, "username"),
        ("kafka", {}, {"sasl": "scram_sha256", "username": "u"}, "password"),
        (
            *("kafka", {}),
            {"sasl": "gssapi", "username": "u", "password": "p", "keytab": "k"},
            "password",
        ),
        ("cron", {"end": LONDON["start"]}, {}, "end"),
        ("cron", {"desiredReplicas": "2.5"}, {}, "desiredReplicas"),
        ("external", {"enableTLS": "yes"}, {}, "enableTLS"),
        ("memory", {"value": "3000000000"}, {}, "value"),
    ],
)
def test_what_keda_refuses(
    kind: str, changes: dict[str, str], auth: dict[str, str], parameter: str
) -> None:
    """The parameter is named."""
    with pytest.raises(TriggerRefused) as caught:
        read_trigger(kind, {**WRITTEN[kind], **changes}, auth=auth, metric_type="Utilization")

    assert caught.value.field == f"trigger.metadata.{parameter}"
    assert parameter in caught.value.keda_message


def test_a_wrong_value_out_of_a_secret_is_not_repeated() -> None:
    """The reason names the parameter but not what the secret holds; KEDA prints it."""
    with pytest.raises(TriggerRefused) as caught:
        read_trigger("kafka", KAFKA, {"sasl": "hunter2"})

    assert "sasl" in str(caught.value)
    assert "hunter" not in str(caught.value)
    with pytest.raises(TriggerRefused, match="hunter2"):
        read_trigger("kafka", {**KAFKA, "sasl": "hunter2"})


def test_the_rules_wait_for_the_authentication() -> None:
    """While the secrets are not known, only what does not hang on them is checked."""
    metadata = {**KAFKA, "sasl": "plaintext"}
    parse = TRIGGER_TYPES["kafka"].parse

    assert parse(TriggerSource(metadata)).security.sasl == "plaintext"
    with pytest.raises(TriggerRefused, match="lagThreshold"):
        parse(TriggerSource({**metadata, "lagThreshold": "0"}))


def test_an_external_server_gets_all_metadata_and_the_values_of_variables() -> None:
    """A ``FromEnv`` key keeps its name and carries the value; unset and empty ones are left out."""
    metadata = {"topic": "t", "userFromEnv": "USER", "goneFromEnv": "GONE", "emptyFromEnv": "EMPTY"}

    trigger = read_trigger(
        "external", {**ADDRESS, **metadata}, environment={"USER": "u", "EMPTY": "", "OTHER": "x"}
    )

    assert trigger.metadata == {**ADDRESS, "topic": "t", "userFromEnv": "u"}
    assert trigger.metric_name(2) == "s2-"


def test_when_a_connection_is_encrypted() -> None:
    """It is when asked for, with a CA, and with a whole client pair."""
    pair = {"tlsClientCert": "c", "tlsClientKey": "k"}

    assert read_trigger("external", {**ADDRESS, "enableTLS": "true"}).uses_tls
    assert read_trigger("external", ADDRESS, {"caCert": "ca"}).uses_tls
    assert read_trigger("external", ADDRESS, pair).uses_tls
    assert not read_trigger("external", ADDRESS, {"tlsClientCert": "c"}).uses_tls
    assert not read_trigger("external", {**ADDRESS, "unsafeSsl": "true"}).uses_tls


def test_secrets_do_not_show() -> None:
    """Neither keys, passwords nor resolved variables are in the repr."""
    trigger = read_trigger(
        "external",
        {**ADDRESS, "passwordFromEnv": "PASSWORD"},
        {"tlsClientKey": "k-secret", "tlsClientCert": "c-secret", "caCert": "ca-secret"},
        {"PASSWORD": "p-secret"},
    )

    assert "secret" not in repr(read_trigger("kafka", KAFKA, SCRAM))
    assert "secret" not in repr(trigger)
    assert trigger.tls_client_key.get_secret_value() == "k-secret"
    assert trigger.connection_key[-1] == "k-secret"


def test_resources_are_percentages_or_quantities() -> None:
    """A share of the request, or an amount per pod; a container can be named."""
    percent = read_trigger("cpu", {"value": "50"}, metric_type="Utilization")
    amount = read_trigger(
        "memory", {"value": "1.5Gi", "containerName": "app"}, metric_type="AverageValue"
    )

    assert (percent.target_percent, percent.target_milli) == (50, None)
    assert percent.metric_name(3) == "cpu"
    assert (amount.target_percent, amount.target_milli) == (None, 1_610_612_736_000)
    assert amount.container_name == "app"
    with pytest.raises(WrongInput, check=lambda error: error.value == "lots"):
        read_trigger("cpu", {"value": "lots"}, metric_type="AverageValue")
    with pytest.raises(TriggerRefused, check=lambda error: error.field == "trigger.metricType"):
        read_trigger("cpu", {"value": "5"}, metric_type="Value")


def test_a_run_fills_in_what_a_prometheus_trigger_reads() -> None:
    """The group is the run's; the address that of the bench, on a cluster the policy's own."""
    embedded = RunSources("broker:9092", "run.events", "enrich.run", "http://here:9090")
    cluster = RunSources("broker:9092", "run.events", "enrich.run")
    fill = TRIGGER_TYPES["prometheus"].for_run

    assert fill(PROMETHEUS, embedded) == {
        "serverAddress": "http://here:9090",
        "query": 'sum(kafka_consumergroup_lag{consumergroup="enrich.run"})',
        "threshold": "500",
    }
    assert fill(PROMETHEUS, cluster)["serverAddress"] == PROMETHEUS["serverAddress"]


MONDAY = datetime(2026, 1, 5, tzinfo=UTC)

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.mark.parametrize(
    "text",
    [
        *("", "0 0 8 * * *", "@daily", "61 8 * * *", "0 8 0 * *", "0 8 * * 7", "0 9-8 * * *"),
        *("*/0 * * * *", "*/5/5 * * * *", "1-2-3 * * * *", "a * * * *", "*/-5 * * * *"),
        "TZ=Mars/Base 0 8 * * *",
    ],
)
def test_a_text_that_is_no_schedule_is_refused(text: str) -> None:
    """As by the parser that KEDA uses."""
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def random_schedule(source: random.Random) -> str:
    """Return five random fields: stars, steps, ranges, lists and numbers."""

    def one(low: int, high: int) -> str:
        first = source.randint(low, high - 1)
        last = source.randint(first + 1, high)  # croniter takes a range of one for "any"
        shapes = [
            "*",
            f"{first}",
            f"{first}-{last}",
            f"*/{source.randint(2, 9)}",
            f"{first}-{last}/{source.randint(1, 4)}",
            f"{first},{last}",
        ]
        return source.choice(shapes)

    return " ".join(one(*bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))


def test_the_next_instant_is_what_another_reader_of_crons_finds() -> None:
    """Three hundred random schedules from random instants, in UTC, agree with croniter."""
    source = random.Random(7)
    compared = 0
    while compared < 300:
        text = random_schedule(source)
        days, weekdays = text.split()[2], text.split()[4]
        if "*/" in days + weekdays:
            continue  # readers of crons differ on whether a stepped star restricts the day
        start = MONDAY + timedelta(seconds=source.randint(0, 400 * 86400))

        found = parse_schedule(text).next_after(start)

        assert found == croniter(text, start).get_next(datetime), (text, start)
        compared += 1


@pytest.mark.parametrize(
    ("text", "after", "found"),
    [
        # Of two restricted day fields one is enough; months and weekdays have names.
        ("0 8 13 * fri", MONDAY, datetime(2026, 1, 9, 8, tzinfo=UTC)),
        (
            "0 8 13 * fri",
            datetime(2026, 1, 9, 8, tzinfo=UTC),
            datetime(2026, 1, 13, 8, tzinfo=UTC),
        ),
        ("0 8 * FEB mon-tue", MONDAY, datetime(2026, 2, 2, 8, tzinfo=UTC)),
        ("0 8 30 2 *", MONDAY, None),
        # On 29 March 2026 Berlin has no 02:30.
        (
            "30 2 * * *",
            datetime(2026, 3, 29, tzinfo=BERLIN),
            datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
        ),
        # On 25 October it has 02:30 twice.
        (
            "30 2 * * *",
            datetime(2026, 10, 25, tzinfo=BERLIN),
            datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        ),
        (
            "30 2 * * *",
            datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN),
            datetime(2026, 10, 25, 1, 30, tzinfo=UTC),
        ),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", MONDAY, datetime(2026, 1, 6, tzinfo=UTC)),
    ],
)
def test_when_a_schedule_comes_next(text: str, after: datetime, found: datetime | None) -> None:
    """Also where clocks are put forward and back, and where it never comes."""
    at = parse_schedule(text).next_after(after)

    assert (at and at.astimezone(UTC)) == found


def cron(**changes: str) -> CronTrigger:
    """Return the office hours with some parameters changed."""
    found: CronTrigger = read_trigger("cron", {**LONDON, **changes})
    return found


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"start": "0 0 * * *", "end": "0 20 * * *"}, "s0-cron-Europe-London-00xxx-020xxx"),
        (
            {"timezone": "Etc/UTC", "start": "*/5 8,9 ? * *", "end": "0 18 * * 1-5"},
            "s0-cron-Etc-UTC-xSl58Cm9Qmxx-018xx1-5",
        ),
    ],
)
def test_the_metrics_name_spells_the_schedules(changes: dict[str, str], name: str) -> None:
    """Blanks go, and the characters that a name may not hold are spelt out."""
    assert cron(**changes).metric_name(0) == name
    assert cron(**changes).target_milli == 1000


NIGHT = {"start": "0 22 * * *", "end": "0 6 * * *"}


@pytest.mark.parametrize(
    ("changes", "hours", "is_within"),
    [
        ({}, 7 + 59 / 60, False),
        ({}, 8, True),  # the start is inside, the end is not
        ({}, 17 + 59 / 60, True),
        ({}, 18, False),
        ({}, 5 * 24 + 12, False),  # on Saturday the next start comes first
        (NIGHT, 23, True),
        (NIGHT, 5, True),
        (NIGHT, 12, False),
        ({}, 182 * 24 + 7, True),  # in July London is an hour ahead of UTC
        ({}, 182 * 24 + 6.9, False),
        # Without an end it is never inside, without a start always: as KEDA compares.
        ({"end": "0 0 30 2 *"}, 12, False),
        ({"start": "0 0 30 2 *"}, 23, True),
    ],
)
def test_inside_the_hours(changes: dict[str, str], hours: float, is_within: bool) -> None:
    """By the clock of the time zone."""
    assert cron(**changes).window_at(MONDAY + timedelta(hours=hours)).is_within == is_within


@pytest.mark.parametrize("zone", ["Mars/Base", "../etc/passwd"])
def test_a_wrong_time_zone_shows_at_the_first_look(zone: str) -> None:
    """Parsing takes any zone; reading the clock in it fails."""
    with pytest.raises(ValueError, match=zone):
        cron(timezone=zone).window_at(MONDAY)
