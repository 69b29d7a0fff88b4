"""Replay recorded traces of the real KEDA and HPA through ours, and say where we differ.

``python -m tests.conformance.real_keda [--markdown FILE] TRACE.jsonl.gz …`` prints per trace the
decisions compared (HPA syncs and KEDA's moves), those that differ, the seconds on which
spec.replicas agree, and the disturbances: reads that the recording leaves open, each with what was
taken. Exit code 1 below 99 % of a trace's seconds or on a wrong decision, 2 for a bad file.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lagbench.errors import LagbenchError
from tests.conformance.real_keda_outcome import Outcome
from tests.conformance.real_keda_replay import Replay
from tests.conformance.real_keda_trace import read_trace

_USAGE = "usage: python -m tests.conformance.real_keda [--markdown FILE] TRACE.jsonl.gz …\n"
_BESIDE = (".syncs.jsonl.gz", ".ext-calls.jsonl.gz")
_SHOWN_DIFFERENCES = 5


def main(arguments: Sequence[str]) -> int:
    """Replay every trace named; the exit code is the worst of theirs."""
    paths, table = list(arguments), None
    if paths[:1] == ["--markdown"] and len(paths) > 1:
        table, paths = Path(paths[1]), paths[2:]
    # A pattern such as *.jsonl.gz also names the files that lie beside the traces.
    traces = [Path(path) for path in paths if not path.endswith(_BESIDE)]
    if not traces:
        sys.stderr.write(_USAGE)
        return 2
    outcomes: list[Outcome] = []
    for path in traces:
        try:
            outcome = Replay(read_trace(path)).run()
        except (OSError, ValueError, TypeError, KeyError, IndexError, LagbenchError) as error:
            sys.stderr.write(f"{path}: not readable as a trace: {error!r}\n")
            return 2
        outcomes.append(outcome)
        sys.stdout.write(_text(outcome))
    passed = sum(outcome.passes for outcome in outcomes)
    sys.stdout.write(f"{passed} of {len(outcomes)} traces reproduced\n")
    if table is not None:
        table.write_text(_markdown(outcomes))
    return 0 if passed == len(outcomes) else 1


def _text(outcome: Outcome) -> str:
    result = "ok" if outcome.passes else "DIFFERS"
    summary = (
        f"{outcome.name}: {result}: {outcome.compared} decisions compared, "
        f"{len(outcome.differences)} differ; spec.replicas equal on {outcome.seconds_equal} of "
        f"{outcome.seconds} seconds ({outcome.share:.2%})"
    )
    lines = [summary]
    lines += [f"  {text}" for text in outcome.differences[:_SHOWN_DIFFERENCES]]
    lines += [f"  disturbance: {text}" for text in outcome.disturbances]
    return "\n".join(lines) + "\n"


def _markdown(outcomes: Sequence[Outcome]) -> str:
    rows = [
        "| trace | decisions compared | differing | seconds equal | disturbances |",
        "| --- | ---: | ---: | ---: | --- |",
        *(
            f"| {item.name} | {item.compared} | {len(item.differences)} "
            f"| {item.seconds_equal} of {item.seconds} ({item.share:.2%}) "
            f"| {'; '.join(item.disturbances)} |"
            for item in outcomes
        ),
    ]
    compared = sum(item.compared for item in outcomes)
    differing = sum(len(item.differences) for item in outcomes)
    equal, seconds = (
        sum(item.seconds_equal for item in outcomes),
        sum(item.seconds for item in outcomes),
    )
    share = equal / seconds if seconds else 0.0
    rows.append(
        f"| **{len(outcomes)} traces** | {compared} | {differing} "
        f"| {equal} of {seconds} ({share:.2%}) | |"
    )
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
