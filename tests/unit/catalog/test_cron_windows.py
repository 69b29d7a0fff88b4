"""Cells whose policy has cron windows in the stream: what excludes them."""

from pathlib import Path

import pytest
import yaml
from tests.unit.catalog.test_catalog import scenario_file

from lagbench.catalog.catalog import checked_cell
from lagbench.catalog.catalog_files import POLICIES_VARIABLE, policies_folder
from lagbench.core.policy.stream_windows import WINDOWS_ANNOTATION
from lagbench.errors import WrongInput


@pytest.fixture
def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide policies of which ``cron-placed`` has a window in the stream."""
    known = policies_folder()
    for name in ("lag-quick", "cron-prewarm-plus-lag"):
        manifest = yaml.safe_load((known / f"{name}.yaml").read_text(encoding="utf-8"))
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: "60-180"}
    (tmp_path / "cron-placed.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    monkeypatch.setenv(POLICIES_VARIABLE, str(tmp_path))
    return tmp_path


def test_a_fixed_phase_and_cron_windows_exclude_each_other(placed: Path, tmp_path: Path) -> None:
    """Both fix the start of the stream."""
    path = scenario_file(tmp_path, partitions=12, hpa_sync_at_seconds=3.0)

    assert checked_cell(path, policy="cron-prewarm-plus-lag").policy_name == "cron-prewarm-plus-lag"
    with pytest.raises(WrongInput) as caught:
        checked_cell(path, policy="cron-placed")
    assert (caught.value.field, caught.value.value) == ("hpa_sync_at_seconds", 3.0)


def test_a_swap_to_a_policy_with_cron_windows_is_rejected(placed: Path, tmp_path: Path) -> None:
    """Only the windows of the first policy are placed in the stream."""

    def scenario(policy: str) -> Path:
        swap = {"kind": "swap_policy", "at_seconds": 1, "policy": policy}
        return scenario_file(tmp_path, partitions=12, actions=[swap])

    assert (
        checked_cell(scenario("cron-prewarm-plus-lag")).swapped[0].name == "cron-prewarm-plus-lag"
    )
    with pytest.raises(WrongInput) as caught:
        checked_cell(scenario("cron-placed"))
    assert (caught.value.field, caught.value.value) == ("actions.0.policy", "cron-placed")


def test_windows_of_both_groups_need_one_start(placed: Path, tmp_path: Path) -> None:
    """Edges half a minute apart cannot both be on whole minutes; whole minutes apart they can."""
    path = placed / "cron-placed.yaml"
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, window in (("late", "90-210"), ("later", "120-240")):
        manifest["metadata"]["annotations"] = {WINDOWS_ANNOTATION: window}
        (placed / f"cron-{name}.yaml").write_text(yaml.safe_dump(manifest), encoding="utf-8")

    def scenario(policy: str) -> Path:
        return scenario_file(tmp_path, partitions=12, second_group={"policy": policy})

    later = checked_cell(scenario("cron-later"), policy="cron-placed")
    assert later.second is not None
    assert later.second.policy_name == "cron-later"
    with pytest.raises(WrongInput, match="whole minutes") as caught:
        checked_cell(scenario("cron-late"), policy="cron-placed")
    assert caught.value.value == "90-210"
