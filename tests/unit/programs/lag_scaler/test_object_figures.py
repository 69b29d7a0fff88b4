"""What a scrape says of each object: what was seen and what is served."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from tests.unit.programs.lag_scaler.test_registry import Setting, answered, ref, with_registry

from lagbench.programs.lag_scaler.registry import ObjectRegistry

_PREFIX = "lagbench_scaler_object_"


def figures(setting: Setting, name: str, *, group: str = "enrich") -> dict[str, float]:
    """Return the series of one object and group, by name without the prefix."""
    text = setting.figures.exposition()[1].decode()
    wanted = {"object": f"n/{name}", "group": group, "topic": "events"}
    return {
        sample.name.removeprefix(_PREFIX): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith(_PREFIX) and sample.labels == wanted
    }


def test_each_object_reports_what_it_saw_and_what_it_serves() -> None:
    """Two partitions of 100 each: one rule is met at once, the other has not lasted."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        at_once, patient = await answered(registry, ref("a", sustainSeconds="0"), ref("b"))
        assert figures(setting, "a") == {
            "lag_records": 200,
            "largest_lag_records": 100,
            "persistence_seconds": 0,
            "sustain_seconds": 0,
            "persistent": 1,
            "active": 1,
            "metric_value": at_once.decision().metric_value,
            "metric_target": 10,
        }
        found = figures(setting, "b")
        assert (found["lag_records"], found["sustain_seconds"]) == (200, 20)
        assert (found["persistent"], found["active"]) == (0, 0)
        assert found["metric_value"] == patient.decision().metric_value == 0

    with_registry(setting, steps)


def test_an_object_without_a_decision_has_no_series() -> None:
    """A gap, never a zero that looks like no lag: no sample ever succeeded."""
    setting = Setting()
    setting.cluster.error = "no broker"

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_a_decision_that_has_become_too_old_has_no_series() -> None:
    """What is shown is what KEDA is told: UNAVAILABLE after 2.5 intervals."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"))
        assert figures(setting, "a")["lag_records"] == 200
        setting.now_ns += 26 * 10**9
        assert figures(setting, "a") == {}

    with_registry(setting, steps)


def test_changed_metadata_takes_the_place_of_the_old_in_a_scrape() -> None:
    """Both are watched for a while; one series is shown, that of the newer rule."""
    setting = Setting()

    async def steps(registry: ObjectRegistry) -> None:
        await answered(registry, ref("a"), ref("a", lagThreshold="50"))
        assert len(registry) == 2
        assert setting.figures.exposition()[1].count(b"object_metric_target{") == 1
        assert figures(setting, "a")["metric_target"] == 50

    with_registry(setting, steps)
