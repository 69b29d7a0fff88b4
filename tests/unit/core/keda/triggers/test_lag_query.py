"""Queries that ask for the lag of a group, and what a run makes of any query."""

import pytest

from lagbench.core.keda.triggers.promql import LagQuery, parse_lag_query, query_for_run

EXPORTER = LagQuery("kafka_exporter", "enrich")
OF_TOPIC = LagQuery("kafka_exporter", "enrich", "events")


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"})', EXPORTER),
        ("sum ( kafka_consumergroup_lag { consumergroup = 'enrich' } )", EXPORTER),
        ('sum(\n  kafka_consumergroup_lag{consumergroup="enrich",topic="events",}\n)', OF_TOPIC),
        ('sum by (consumergroup) (kafka_consumergroup_lag{consumergroup="enrich"})', EXPORTER),
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"}) by (consumergroup,topic)', EXPORTER),
        ('sum(kafka_consumergroup_lag{consumergroup="enrich"}) or vector(0)', EXPORTER),
        ('kafka_consumergroup_lag_sum{topic="events",consumergroup="enrich"}', OF_TOPIC),
        ('sum(kafka_consumergroup_lag_sum{consumergroup="enrich"})', EXPORTER),
        ("lagbench_lag_records", LagQuery("recorder")),
        ("sum(lagbench_partition_lag_records)", LagQuery("recorder")),
    ],
)
def test_a_query_for_the_total_lag_is_understood(query: str, asked: LagQuery) -> None:
    """Its group and topic are those of the matchers, however it is written."""
    assert parse_lag_query(query) == asked


@pytest.mark.parametrize(
    "query",
    [
        "up",
        "",
        "sum(kafka_consumergroup_lag)",
        'kafka_consumergroup_lag{consumergroup="enrich"}',
        'avg(kafka_consumergroup_lag{consumergroup="enrich"})',
        'sum(kafka_consumergroup_lag{consumergroup=~"enrich.*"})',
        'sum(kafka_consumergroup_lag{consumergroup="enrich",partition="3"})',
        'sum by (partition) (kafka_consumergroup_lag{consumergroup="enrich"})',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}) + 1',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"} offset 1m)',
        'sum(rate(kafka_consumergroup_lag{consumergroup="enrich"}[1m]))',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}) or vector(1)',
        'sum(kafka_consumergroup_lag{consumergroup="enrich"}',
        'lagbench_lag_records{run_id="x"}',
        "lagbench_partition_lag_records",
    ],
)
def test_any_other_query_is_not(query: str) -> None:
    """One partition, several series, a rate, the past or all groups are not the group's lag."""
    assert parse_lag_query(query) is None


def test_a_run_puts_its_group_and_topic_into_every_matcher() -> None:
    """Also where the query is none that the simulator knows; other labels and texts stay."""
    query = (
        'max(rate(x{consumergroup=~"prod.*",topic="t",job="topic=\\"t\\""}[1m]))'
        " / on(consumergroup) y{consumergroup='a'}"
    )

    assert query_for_run(query, group="enrich.run", topic="lagbench.run.events") == (
        'max(rate(x{consumergroup="enrich.run",topic="lagbench.run.events",job="topic=\\"t\\""}[1m]))'
        ' / on(consumergroup) y{consumergroup="enrich.run"}'
    )
