"""The conformance commands on the recorded oracles: no difference."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance import hpa, keda_kafka_lag
from tests.conformance.comparison import read_oracle

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("module", "name", "count"),
    [(hpa, "hpa_oracle", 7200), (keda_kafka_lag, "keda_kafka_lag_oracle", 546)],
)
def test_the_model_agrees_with_every_recorded_outcome(
    module: ModuleType, name: str, count: int
) -> None:
    """Every sync and every poll of the oracle is reproduced."""
    found = module.compare(read_oracle(DATA / f"{name}.json.gz"))

    assert (found.compared, found.differences) == (count, [])
