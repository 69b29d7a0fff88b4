"""The list of consumer groups is the answer of each broker."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from lagbench.adapters.kafka.kafka_admin import KafkaAdmin
from lagbench.errors import StillWaiting


class GroupsClient:
    """Answers each request with the next of ``listings``: groups, and errors of brokers."""

    def __init__(self, *listings: tuple[list[str], list[int]]) -> None:
        """Take the answers, in order; the last one repeats."""
        self.listings = list(listings)

    def list_consumer_groups(self, **_: Any) -> Future[Any]:
        """Return what becomes of the request."""
        groups, codes = self.listings.pop(0) if len(self.listings) > 1 else self.listings[0]
        answer: Future[Any] = Future()
        valid = [SimpleNamespace(group_id=group) for group in groups]
        errors = [KafkaException(KafkaError(code)) for code in codes]
        answer.set_result(SimpleNamespace(valid=valid, errors=errors))
        return answer


def admin_of_groups(
    client: GroupsClient, monkeypatch: pytest.MonkeyPatch, timeout_seconds: float = 15.0
) -> KafkaAdmin:
    """Return the administration over a client."""
    admin = KafkaAdmin("127.0.0.1:1", timeout_seconds=timeout_seconds)
    monkeypatch.setattr(admin, "_client", cast("Any", client))
    return admin


def test_a_broker_that_answers_in_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its groups are in the list, which has those of the other brokers too."""
    client = GroupsClient(
        (["enrich.b", "other"], [KafkaError.COORDINATOR_LOAD_IN_PROGRESS]),
        (["enrich.b", "enrich.a"], []),
    )

    assert admin_of_groups(client, monkeypatch).group_ids("enrich.") == ["enrich.a", "enrich.b"]


def test_a_list_without_a_broker_s_groups_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clean-up that took it for whole would leave that broker's groups for good."""
    client = GroupsClient((["enrich.a"], [KafkaError._TIMED_OUT]))

    with pytest.raises(StillWaiting):
        admin_of_groups(client, monkeypatch, timeout_seconds=0.0).group_ids("enrich.")
