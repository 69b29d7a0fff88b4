"""What is found in the sources of a policy: addresses, servers, topics, queries."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.policies import (
    kafka,
    prometheus,
)
from tests.unit.core.policy.review.test_findings import found, review


@pytest.mark.parametrize(
    ("address", "level", "instead"),
    [
        ("http://lag-scaler.default.svc", "broken", "lag-scaler.default.svc:6000"),
        ("http://lag-scaler:7000/", "broken", "lag-scaler:7000"),
        ("lag-scaler", "warning", "lag-scaler:6000"),
    ],
)
def test_the_suggested_address_is_not_warned_of_in_its_turn(
    address: str, level: str, instead: str
) -> None:
    """It has a port, so a second check is silent."""

    def addresses(value: str) -> list[tuple[str, str]]:
        trigger = {"type": "external", "metadata": {"scalerAddress": value}}
        findings = review(triggers=[trigger]).findings
        return [(one.level, one.instead) for one in findings if one.code == "scaler-address"]

    assert addresses(address) == [(level, instead)]
    assert not addresses(instead)


@pytest.mark.parametrize(
    ("servers", "level", "said", "instead"),
    [
        ("kafka", "broken", "missing port", "kafka:9092"),
        ("PLAINTEXT://kafka:9093", "broken", "too many colons", "kafka:9093"),
        ("a:9092;b:9092", "broken", "too many colons", "a:9092,b:9092"),
        ("k:port", "broken", "unknown port", "k:9092"),
        ("k:99999", "broken", "invalid port", "k:9092"),
        ("k:9092,b", "warning", "missing port", "k:9092,b:9092"),
        ("::1:9092", "broken", "too many colons", "HOST:9092"),
    ],
)
def test_servers_that_cannot_be_dialled_are_named(
    servers: str, level: str, said: str, instead: str
) -> None:
    """With the form that can be."""
    finding = found(review(triggers=[kafka(bootstrapServers=servers)]), "server-address")

    assert (finding.level, finding.instead) == (level, instead)
    assert said in finding.happens


@pytest.mark.parametrize(
    ("code", "trigger"),
    [
        *[
            ("topic-impossible", kafka(topic=topic))
            for topic in ("orders,payments", "orders-.*", "a b", "a*", "x" * 250, "..")
        ],
        *[
            ("many-series", prometheus(query))
            for query in (
                'kafka_consumergroup_lag{consumergroup="g"}',
                "sum by (topic) (a)",
                "sum(a) by (topic)",
                "rate(a[5m])",
                "a / b",
                "topk(3, a)",
            )
        ],
    ],
)
def test_a_source_that_keda_cannot_read_as_it_is_meant(code: str, trigger: dict[str, Any]) -> None:
    """KEDA reads one topic for each trigger, and takes one series."""
    assert code in review(triggers=[trigger]).codes
