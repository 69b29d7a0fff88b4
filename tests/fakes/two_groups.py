"""The folder of a run with two consumer groups."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.scenario.scenario import Scenario
from lagbench.results.cell_run import read_scenario
from tests.fakes.run_folder_builder import quick_spike_run


def two_groups(root: Path, **slos: float) -> RunFolder:
    """Return a run whose second group measured the same as the first; ``slos`` are its own."""
    folder = quick_spike_run().write(root)
    shutil.copytree(folder.path, root / "copy")
    shutil.move(root / "copy", folder.path / "second_group")
    data = read_scenario(folder).model_dump(mode="json") | {"second_group": {"slos": slos}}
    whole = Scenario.model_validate(data)
    seen = whole.of_second_group()
    assert folder.second is not None
    assert seen is not None
    for group, scenario in ((folder, whole), (folder.second, seen)):
        group.write_text(group.scenario, yaml.safe_dump(scenario.model_dump(mode="json")))
    return folder
