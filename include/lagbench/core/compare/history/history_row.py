"""One line of the history of all runs."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from lagbench.core.compare.environment import Environment
from lagbench.core.measures import MeasureModel


class HistoryRow(MeasureModel):
    """A judged run: its cell, its verdict, its measures by name, and its manifest.

    ``None`` means that the run did not measure it, or that its folder does not show it.
    """

    run_id: str
    created_at: int  # unix nanoseconds
    scenario: str
    policy: str
    seed: int | None
    fidelity: str
    cell: str | None  # the cell's digest
    verdict: str
    is_invalid: bool  # it got another load than planned
    has_measured: bool | None = Field(
        default=None, description="the verdict's is_result; None: the line is of an earlier version"
    )
    measures: Mapping[str, float | None]
    manifest: Mapping[str, str] = Field(
        default_factory=dict, description="each other value of the manifest by its dotted name"
    )

    @property
    def is_result(self) -> bool:
        """True if the run measured its cell (``Verdict.is_result``)."""
        if self.has_measured is None:
            return self.verdict in ("pass", "fail") and not self.is_invalid
        return self.has_measured

    @property
    def environment(self) -> Environment:
        """The machine and the versions of the run."""
        machine, versions = (
            {
                name.removeprefix(prefix): value
                for name, value in self.manifest.items()
                if name.startswith(prefix)
            }
            for prefix in ("machine.", "versions.")
        )
        return Environment.of_manifest({"machine": machine, "versions": versions})

    @property
    def cell_name(self) -> str:
        """Scenario, policy and seed, as a reader names the cell."""
        return f"{self.scenario}/{self.policy}/{'–' if self.seed is None else self.seed}"


def flat_manifest(content: Mapping[str, object], prefix: str = "") -> dict[str, str]:
    """Return each value of the manifest by its dotted name, as text; ``None`` is left out."""
    found: dict[str, str] = {}
    for name, value in content.items():
        if isinstance(value, Mapping):
            found |= flat_manifest(value, f"{prefix}{name}.")
        elif value is not None:
            found[f"{prefix}{name}"] = str(value)
    return found
