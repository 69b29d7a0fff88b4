"""What messages cost in one pod."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tests.unit.programs.consumer.records import chunk

from lagbench.core.scenario.poison import Effect, PoisonedKey
from lagbench.core.scenario.stream.cost_draws import process_ns
from lagbench.programs.consumer.message_costs import MessageCosts
from lagbench.programs.consumer.settings import parse_options

MS_OF_COST = 1_000_000
LOGNORMAL = json.dumps({"kind": "lognormal", "mean_ms": 20, "p99_ms": 80})


def costs_of(*arguments: str, poison: PoisonedKey | None = None) -> MessageCosts:
    """Return the costs of a pod with these flags."""
    flags = [*arguments] if poison is None else [*arguments, f"--poison={poison.model_dump_json()}"]
    environment = {"POD_NAME": "consumer-7", "KAFKA_BOOTSTRAP_SERVERS": "b:1"}
    return MessageCosts.of(parse_options(["--run-id=a", *flags], environment))


def poisoned(effect: Effect) -> PoisonedKey:
    """Return poison on key 14, which only offset 2 of the tests' records has."""
    return PoisonedKey(
        entity_id=14,
        effect=effect,
        from_offset_ns=22,
        until_offset_ns=23,
        attempts=3,
        hang_ns=5 * MS_OF_COST,
    )


def test_each_record_of_a_fetch_gets_the_draw_of_its_message() -> None:
    """One draw serves the chunks of all partitions; CPU time comes on top."""
    costs = costs_of(f"--process-ms={LOGNORMAL}", "--cpu-ms=1", "--work-seed=5")
    chunks = [chunk(0, 3), chunk(100, 1), chunk(7, 5)]

    costs.draw(chunks)

    assert costs.mean_ns == 21 * MS_OF_COST
    assert costs.distribution is not None
    for each in chunks:
        expected = process_ns(costs.distribution, each.events, seed=5) + MS_OF_COST
        assert each.costs_ns is not None
        assert np.array_equal(each.costs_ns, expected)


def test_equal_costs_are_not_drawn() -> None:
    """A number is the cost of every message."""
    only = chunk(0, 3)

    costs_of("--process-ms=2").draw([only])

    assert only.costs_ns is None
    assert only.failed_attempts is None


def test_a_poisoned_message_that_fails_costs_every_attempt() -> None:
    """Three attempts of 2 ms; those beside it cost what they always do."""
    first, second = chunk(0, 2), chunk(2, 3)

    costs_of("--process-ms=2", poison=poisoned("fail")).draw([first, second])

    assert second.costs_ns is not None
    assert second.failed_attempts is not None
    assert second.costs_ns.tolist() == [6 * MS_OF_COST, 2 * MS_OF_COST, 2 * MS_OF_COST]
    assert second.failed_attempts.tolist() == [3, 0, 0]
    assert first.failed_attempts is not None
    assert not first.failed_attempts.any()


def test_a_poisoned_message_that_hangs_takes_longer_and_is_processed() -> None:
    """2 ms and 5 ms of hanging; it is no dead letter."""
    records = chunk(0, 4)

    costs_of("--process-ms=2", poison=poisoned("hang")).draw([records])

    assert records.costs_ns is not None
    assert records.costs_ns.tolist() == [
        2 * MS_OF_COST,
        2 * MS_OF_COST,
        7 * MS_OF_COST,
        2 * MS_OF_COST,
    ]
    assert records.failed_attempts is None


@pytest.mark.parametrize(("from_ns", "until_ns"), [(0, 22), (23, 99)])
def test_poison_has_a_window_in_the_stream(from_ns: int, until_ns: int) -> None:
    """A message of the key that is planned before or after it is a message like any other."""
    records = chunk(0, 4)
    window = {"from_offset_ns": from_ns, "until_offset_ns": until_ns}

    costs_of("--process-ms=2", poison=poisoned("fail").model_copy(update=window)).draw([records])

    assert records.costs_ns is None
    assert records.failed_attempts is None
