"""Copies of recorded run folders, tampered with through small functions, and judged.

    run = tampered(tmp_path)
    run.drop_records("pod_seen")
    verdict = run.judge()

Each function reads a file or table, changes it and writes it back; nothing else is touched. The
verdict is computed from the folder alone, as ``lagbench report`` does.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from lagbench.adapters.runs.run_folder import RunFolder
from lagbench.core.measures.measures import Measures
from lagbench.core.scenario.scenario import Scenario
from lagbench.core.verdict.slo import SloResult
from lagbench.core.verdict.verdict import Verdict, judge
from lagbench.results.measure_run import judge_run, measure_run

KEPT_PASS = Path(__file__).parent.parent / "data" / "runs" / "stand_in_pass.tar.xz"
SECOND = 1_000_000_000

Row = dict[str, Any]
Edit = Callable[[Row], Row | None]
"""Returns the row as it shall be, changed or not; None: without it."""


@dataclass(frozen=True, slots=True)
class TamperedRun:
    """A copy of a run folder; instants are given in seconds after the stream's start."""

    folder: RunFolder
    stream_started_at: int

    def at(self, seconds: float) -> int:
        """Return an instant of the stream in unix nanoseconds."""
        return self.stream_started_at + round(seconds * SECOND)

    def seconds(self, at: int) -> float:
        """Return an instant as seconds after the stream's start."""
        return (at - self.stream_started_at) / SECOND

    # telemetry -----------------------------------------------------------------------------

    def records(self, *kinds: str) -> list[Row]:
        """Return the telemetry records as decoded JSON, of ``kinds`` or all."""
        found = [json.loads(row["record"]) for row in self.rows("telemetry")]
        return [record for record in found if not kinds or record["kind"] in kinds]

    def edit_records(self, edit: Edit, *kinds: str) -> None:
        """Pass each record of ``kinds`` (all without any) to ``edit``."""

        def of(record: Row) -> Row | None:
            return edit(record) if not kinds or record["kind"] in kinds else record

        kept = [of(record) for record in self.records()]
        self._write_records([record for record in kept if record is not None])

    def drop_records(
        self, *kinds: str, from_seconds: float = -1e9, until_seconds: float = 1e9
    ) -> None:
        """Leave out the records of ``kinds`` that lie in [from_seconds, until_seconds)."""

        def edit(record: Row) -> Row | None:
            is_inside = from_seconds <= self.seconds(record["at"]) < until_seconds
            return None if is_inside else record

        self.edit_records(edit, *kinds)

    def add_records(self, *records: Mapping[str, Any]) -> None:
        """Add records (``kind``, ``at``, ``source`` and the fields of the kind)."""
        self._write_records([*self.records(), *map(dict, records)])

    # tables --------------------------------------------------------------------------------

    def rows(self, table: str) -> list[Row]:
        """Return the rows of a table of the run."""
        return _read(self.folder.table(table)).to_pylist()

    def edit_rows(self, table: str, edit: Edit) -> None:
        """Pass each row of ``table`` to ``edit``."""
        kept = [edit(row) for row in self.rows(table)]
        self.write_rows(table, [row for row in kept if row is not None])

    def write_rows(self, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write ``table`` again with its own columns."""
        path = self.folder.table(table)
        schema = _read(path).schema
        for part in path.glob("*.parquet"):
            part.unlink()
        made = pa.Table.from_pylist([dict(row) for row in rows], schema=schema)
        pq.write_table(made, path / "part-00000.parquet")

    # files ---------------------------------------------------------------------------------

    def edit_json(self, name: str, edit: Callable[[Any], Any]) -> None:
        """Pass the content of ``name`` (accounting.json, fence.json, manifest.json) to ``edit``."""
        path = self.folder.path / name
        path.write_text(json.dumps(edit(json.loads(path.read_text()))))

    def edit_yaml(self, name: str, edit: Callable[[Any], Any]) -> None:
        """Pass the content of ``name`` (scenario.yaml, policy.yaml) to ``edit``."""
        path = self.folder.path / name
        path.write_text(yaml.safe_dump(edit(yaml.safe_load(path.read_text()))))

    def set_scenario(self, **fields: Any) -> None:
        """Set fields of the scenario; of a mapping (but the profile) those fields that it has."""

        def edit(scenario: Row) -> Row:
            for name, value in fields.items():
                is_part = isinstance(value, Mapping) and name != "profile"
                scenario[name] = {**scenario[name], **value} if is_part else value
            return scenario

        self.edit_yaml("scenario.yaml", edit)

    def set_slos(self, **limits: Any) -> None:
        """Set limits of the scenario."""
        self.set_scenario(slos=limits)

    def set_accounting(self, **counts: Any) -> None:
        """Set counts of accounting.json."""
        self.edit_json("accounting.json", lambda found: {**found, **counts})

    def scenario(self) -> Scenario:
        """Return the scenario as it is now."""
        return Scenario.model_validate(yaml.safe_load(self.folder.scenario.read_text()))

    # judging -------------------------------------------------------------------------------

    def measure(self) -> Measures:
        """Measure the folder as it is now."""
        return measure_run(self.folder)

    def judge(self) -> Verdict:
        """Measure and judge the folder as it is now."""
        measure_run(self.folder)
        return judge_run(self.folder)

    def judge_beyond_doubt(self) -> Verdict:
        """Judge the folder as if all its parts agreed, which a test's one change may spoil."""
        measures = self.measure().model_copy(update={"doubts": ()})
        return judge(measures, self.scenario().slos)

    def _write_records(self, records: Sequence[Row]) -> None:
        self.write_rows(
            "telemetry",
            [
                {
                    "at": record["at"],
                    "source": record["source"],
                    "kind": record["kind"],
                    "record": json.dumps(record),
                }
                for record in records
            ],
        )


def tampered(root: Path) -> TamperedRun:
    """Return a copy of a kept run of the present format that passed, to be tampered with.

    150/s, from 8 s to 18 s 1,500/s, until 22 s and in its tail 150/s again; 1 pod, at +9.8 s 4
    wanted by a sync (the next ones at +25 and +40); reaction 6.07 s; drained 12.3 s after the
    spike, at +30.3 s; 1 pod again at +40.1 s; the end at +67.4 s.
    """
    with tarfile.open(KEPT_PASS) as archive:
        archive.extractall(root, filter="data")
        name = archive.getnames()[0].partition("/")[0]
    path = (root / name).rename(root / "tampered-20261122-155419-90c1")
    manifest = json.loads((path / "manifest.json").read_text())
    return TamperedRun(RunFolder(path), int(manifest["stream_started_at"]))


def slo(verdict: Verdict, name: str) -> SloResult:
    """Return the outcome of one SLO."""
    return next(result for result in verdict.slos if result.name == name)


def _read(path: Path) -> pa.Table:
    return pa.concat_tables(
        [pq.ParquetFile(part).read() for part in sorted(path.glob("*.parquet"))]
    )


TRACE = {
    "kind": "trace",
    "file": "trace.csv",
    "points": [
        {"second": 0, "rate_per_second": 150, "is_spike": False},
        {"second": 8, "rate_per_second": 1500, "is_spike": True},
        {"second": 18, "rate_per_second": 150, "is_spike": False},
        {"second": 22, "rate_per_second": 0, "is_spike": False},
    ],
}


def new_pods(run: TamperedRun) -> set[str]:
    """Return the pods that the scale-up added."""
    seen = run.records("pod_seen")
    return {record["pod"] for record in seen if run.seconds(record["created_at"]) > 0}


def without_pods(run: TamperedRun, pods: set[str]) -> None:
    """Leave out all that is known of ``pods``: as if they had never come."""

    def edit(record: Row) -> Row | None:
        if record["source"] in pods or record.get("pod") in pods:
            return None
        if record["kind"] == "group_members":
            kept = [member for member in record["members"] if member["client_id"] not in pods]
            return {**record, "members": kept}
        return record

    run.edit_records(edit)


def without_scaling(run: TamperedRun) -> None:
    """Leave the replicas at 1: no step, no new pod."""
    without_pods(run, new_pods(run))
    at_one = {
        "replica_sample": {"spec": 1, "current": 1, "ready": 1},
        "hpa_sync": {"spec_replicas": 1, "desired": 1},
        "group_sample": {"members": 1},
    }
    run.edit_records(lambda record: {**record, **at_one.get(record["kind"], {})})
    run.drop_records("scaled", "replicas_changed")


def set_lag(run: TamperedRun, lag_at: Any) -> None:
    """Set the lag of each row to ``lag_at(seconds, row)``; None: the commit is not known."""

    def edit(row: Row) -> Row:
        lag = lag_at(run.seconds(row["at"]), row)
        committed = None if lag is None else row["end_offset"] - lag
        return {**row, "committed": committed, "lag": lag}

    run.edit_rows("lag", edit)


def as_trace(run: TamperedRun) -> None:
    """Tell the same load as a trace."""
    run.set_scenario(profile=TRACE)
    run.edit_records(lambda record: {**record, "step": "change"}, "load_step")


def drop_lag(run: TamperedRun, from_seconds: float, until_seconds: float) -> None:
    """Leave out the lag of a period."""

    def edit(row: Row) -> Row | None:
        return None if from_seconds <= run.seconds(row["at"]) < until_seconds else row

    run.edit_rows("lag", edit)


Damage = Callable[[TamperedRun], object]


def both(*damages: Damage) -> Damage:
    """Return several changes as one."""
    return lambda run: [damage(run) for damage in damages]


def rows(table: str, edit: Callable[[TamperedRun, Row], Row | None]) -> Damage:
    """Return a change of the rows of a table."""
    return lambda run: run.edit_rows(table, lambda row: edit(run, row))


def records(kind: str, edit: Callable[[TamperedRun, Row], Row | None]) -> Damage:
    """Return a change of the records of a kind."""
    return lambda run: run.edit_records(lambda record: edit(run, record), kind)


def dropped(*kinds: str, from_seconds: float = -1e9, until_seconds: float = 1e9) -> Damage:
    """Return a change that leaves records out."""
    span = {"from_seconds": from_seconds, "until_seconds": until_seconds}
    return lambda run: run.drop_records(*kinds, **span)


def edited(
    from_seconds: float, until_seconds: float, **fields: object
) -> Callable[[TamperedRun, Row], Row]:
    """Return an edit that sets fields in [from_seconds, until_seconds)."""

    def edit(run: TamperedRun, row: Row) -> Row:
        is_inside = from_seconds <= run.seconds(row["at"]) < until_seconds
        return {**row, **fields} if is_inside else row

    return edit


Expected = Mapping[str, Any]
"""Status by SLO, or status and value; and what else a row states: see ``check``."""


def check(
    run: TamperedRun,
    expected: Expected,
    damage: Damage | None = None,
    limits: Mapping[str, Any] | None = None,
) -> None:
    """Make the change, set the limits, judge the run, and compare with what is expected.

    Beside SLOs: ``run`` is the status; ``doubts`` are all codes, ``doubt`` is one of them;
    ``invalid`` is part of a reason why the run is invalid, ``why`` of that of an SLO; ``agreed``:
    judged as if all parts of the folder agreed.
    """
    if damage is not None:
        damage(run)
    if limits:
        run.set_slos(**limits)
    slos = dict(expected)
    status, invalid, why = slos.pop("run", None), slos.pop("invalid", None), slos.pop("why", "")
    codes, code = slos.pop("doubts", None), slos.pop("doubt", None)
    found = {doubt.code for doubt in run.measure().doubts}
    verdict = run.judge_beyond_doubt() if slos.pop("agreed", False) else judge_run(run.folder)

    assert status in (None, verdict.status), verdict.reasons
    assert codes in (None, found)
    assert code is None or code in found
    if invalid is not None:
        assert any(invalid in reason for reason in verdict.invalid), verdict.invalid
        assert {result.status for result in verdict.slos} <= {"undetermined", "not_judged"}
    for name, stated in slos.items():
        result = slo(verdict, name)
        whole = (stated, result.value) if isinstance(stated, str) else stated
        assert (result.status, result.value) == whole, name
        assert why in result.reason
