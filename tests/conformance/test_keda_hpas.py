"""HPAs that the real KEDA made, against those built here from the same ScaledObjects."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from lagbench.core.hpa.hpa_object import parse_behavior
from lagbench.core.keda.loop.keda_hpa import build_hpa
from lagbench.core.keda.loop.scalers import MetricSpec, trigger_metric_spec
from lagbench.core.keda.object.scaled_object import parse_scaled_object
from lagbench.core.keda.object.scaled_object_spec import ScaledObjectSpec
from lagbench.core.keda.triggers.trigger_types import ExternalTrigger
from lagbench.core.policy.admission.api_server import stored_hpa

_FILE = Path(__file__).parents[1] / "data" / "keda_hpas.json.gz"
ROWS: list[dict[str, Any]] = json.loads(gzip.decompress(_FILE.read_bytes()))["rows"]


def metric_specs(spec: ScaledObjectSpec) -> list[MetricSpec]:
    """Return all triggers' metrics; the recorder's external server offered one, ``lag``."""
    specs: list[MetricSpec] = []
    for trigger in spec.triggers:
        known = trigger_metric_spec(trigger)
        if known is None:
            assert isinstance(trigger.parameters, ExternalTrigger)
            known = MetricSpec(
                name=f"s{trigger.index}-lag",
                kind="External",
                target_type=trigger.metric_type,
                target_milli=int(trigger.parameters.metadata["target"]) * 1000,
            )
        specs.append(known)
    return specs


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_the_hpa_is_the_one_that_keda_made(row: dict[str, Any]) -> None:
    """Target, bounds, metrics in their order, behavior with its defaults and name are equal."""
    manifest = row["scaled_object"]
    spec = parse_scaled_object(manifest, where=row["name"])

    hpa = build_hpa(spec, {**manifest["metadata"], "uid": "u"}, metric_specs(spec))

    made, stored = stored_hpa(hpa, "1.34")["spec"], row["hpa_spec"]
    for field in ("scaleTargetRef", "minReplicas", "maxReplicas", "metrics"):
        assert made[field] == stored[field]
    # The API server, 1.34, dropped the tolerances, and put its defaults into what it stored.
    assert parse_behavior(made.get("behavior"), where="made", field="behavior") == parse_behavior(
        stored.get("behavior"), where="stored", field="behavior"
    )
    assert hpa["metadata"]["name"] == row.get("hpa_name", hpa["metadata"]["name"])


def test_all_rows_are_there() -> None:
    """149 recorded HPAs, with every kind of metric and both paused directions among them."""
    kinds = {metric["type"] for row in ROWS for metric in row["hpa_spec"]["metrics"]}
    sides = {
        side
        for row in ROWS
        for side, rules in (row["hpa_spec"].get("behavior") or {}).items()
        if rules.get("selectPolicy") == "Disabled"
    }

    assert len(ROWS) == 149
    assert kinds == {"External", "Resource", "ContainerResource"}
    assert sides == {"scaleUp", "scaleDown"}
