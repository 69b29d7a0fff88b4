"""The reference names every setting of a scenario, and the limits of the SLOs as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import get_args

import pytest
from pydantic import BaseModel

from lagbench.core.scenario.scenario import Scenario
from lagbench.core.scenario.slo_limits import Slos
from lagbench.project import PROJECT_ROOT

PAGES = {
    name: (PROJECT_ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    for name in ("reference", "actions", "own-consumer", "spark-consumer")
}
OF_THE_PROGRAM = {
    *("consumer.manifest_sha256", "profile.points.second"),
    *(f"payload.{one}" for one in ("file_bytes", "samples", "mean_bytes", "largest_bytes")),
    *("payload.partition_shares", "payload.sha256"),
}
"""What lagbench itself notes in a run's scenario."""


def settings(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """Yield each setting below a model, dotted; those of a second group are the first one's."""
    for name, field in model.model_fields.items():
        kinds = get_args(field.annotation) or (field.annotation,)
        models = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        for below in models:
            yield from settings(below, f"{above}{name}.")
        if not models:
            yield f"{above}{name}"


SETTINGS = {one for one in settings(Scenario) if not one.startswith("second_group.")}


@pytest.mark.parametrize("setting", sorted(SETTINGS - OF_THE_PROGRAM))
def test_every_setting_is_documented(setting: str) -> None:
    """In a row by its whole name or, where a section is about its part, by its own."""
    part, _, own = setting.rpartition(".")
    names = f"`{setting}`", f"`{own}`", f"`slos.{own}", f"\n  {own}:"

    assert any(name in page for name in names for page in PAGES.values()), part


def test_the_limits_are_those_of_the_model() -> None:
    """Each row has as many limits as names, or one for all of them."""
    table = PAGES["reference"].partition("| SLO | limit by default |")[2].partition("\n\n")[0]
    words, found = {"none": None, "true": True}, dict[str, object]()
    for row in re.findall(r"^\| (`.*?) \| (.*?) \|$", table, re.MULTILINE):
        names, shown = re.findall(r"`(\w+)`", row[0]), row[1].partition(":")[0].split(", ")
        limits = [words[text] if text in words else float(text) for text in shown]
        found |= dict(zip(names, limits * (len(names) // len(limits)), strict=True))

    assert found == {name: field.default for name, field in Slos.model_fields.items()}
