"""The flags of the small Kubernetes API."""

from __future__ import annotations

import pytest

from lagbench.errors import WrongInput
from lagbench.localkube.server import ServerSettings
from lagbench.programs.flags import CommandLine


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ([], "--state-dir"),
        (["--state-dir=a", "--port=70000"], "--port"),
        (["--state-dir=a", "--stop-limit-seconds=-1"], "--stop-limit-seconds"),
    ],
)
def test_a_wrong_flag_is_named(arguments: list[str], field: str) -> None:
    """A folder is needed; ports and times have bounds."""
    with pytest.raises(WrongInput) as refused:
        CommandLine(ServerSettings, module="lagbench.localkube").read(arguments, {})

    assert refused.value.field == field
