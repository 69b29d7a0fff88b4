"""The levels of accounting: what each cannot judge, and its default limits."""

from __future__ import annotations

import re

import pytest

from lagbench.core.scenario.accounting_level import LEVELS, AccountingLevel, level_of
from lagbench.core.scenario.scenario import Slos

OF_WORK = {"lost", "duplicated", "reordered", "time_lag_p95_seconds", "standstill_seconds"}


@pytest.mark.parametrize("level", LEVELS.values(), ids=list(LEVELS))
def test_a_level_names_slos_that_are_there(level: AccountingLevel) -> None:
    """What a level cannot judge is a field of the SLOs, and its default limit is none."""
    assert set(level.cannot_judge) <= set(Slos.model_fields)
    limits = Slos.model_validate(level.default_limits())
    assert not any(getattr(limits, name) for name in level.cannot_judge)


def test_a_limit_of_the_user_stays() -> None:
    """The user's own limit is kept, so that the verdict can say that it cannot be judged."""
    limits = level_of("commits").with_default_limits({"lost": 0})

    assert limits["lost"] == 0
    assert limits["duplicated"] is None


def test_the_sentence_names_what_is_missing() -> None:
    """It leaves out what can be judged, and what the user asked for."""
    level = level_of("output")

    said = level.judged_without(["lost", "zombies", "failed"], but={"failed"})

    assert "zombies" in said
    assert not {"lost", "failed"} & {*re.findall(r"\w+", said)}
    assert level.judged_without(["lost"]) == ""
