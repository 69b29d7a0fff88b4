"""``make record KUBERNETES=1.37 KEDA=2.21 [ONLY=hpa,lag,webhook,traces] [KEEP=1]``.

Records the truth that the conformance tests compare with, of the versions chosen, and prints what
has changed since it was kept: HPA and lag oracle from the code of Kubernetes and KEDA, webhook
answers and traces from a rig. Files go to build/record, and with KEEP=1 into tests/data as well.
Exit code 0: all the same, 1: something changed, 2: wrong input, 3: not ready.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.record import traces
from tests.cluster.record.comparison import (
    Compared,
    compare,
    hpa_outcomes,
    lag_outcomes,
    trace_outcomes,
    webhook_outcomes,
)
from tests.cluster.record.files import DATA, KEPT, TRACES, write_document
from tests.cluster.record.oracles import replay_hpa, replay_lag
from tests.cluster.rig.go_command import BuildFailed
from tests.cluster.rig.versions import pinned
from tests.conformance.comparison import read_oracle

_REPLAYS = {"hpa": replay_hpa, "lag": replay_lag}
_OUTCOMES = {"hpa": hpa_outcomes, "lag": lag_outcomes, "webhook": webhook_outcomes}
_LIVE = ("webhook", "traces")
_KINDS = (*_REPLAYS, *_LIVE)


def main() -> int:
    """Record and compare."""
    kinds = (os.environ.get("ONLY") or ",".join(_KINDS)).split(",")
    if unknown := [kind for kind in kinds if kind not in _KINDS]:
        sys.stderr.write(f"ONLY={unknown[0]}: allowed: {', '.join(_KINDS)}\n")
        return 2
    versions = pinned()
    folder = Path("build") / "record" / f"{versions.kubernetes}-{versions.keda}"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for kind in (kind for kind in kinds if kind in _REPLAYS):
            kept = read_oracle(DATA / KEPT[kind])
            write_document(folder / KEPT[kind], _REPLAYS[kind](kept, versions))
    except BuildFailed as error:
        sys.stderr.write(f"not ready: {error}\n")
        return 3
    if live := [kind for kind in kinds if kind in _LIVE]:
        rig = [sys.executable, "-m", "tests.cluster.rig", "--with-broker"]
        recorder = [sys.executable, "-m", "tests.cluster.record.live", str(folder), *live]
        if subprocess.call([*rig, *recorder]) != 0:
            sys.stderr.write("not ready: the rig or a recorder failed, see above\n")
            return 3
    compared = [_compared(kind, folder) for kind in kinds]
    where = f"Kubernetes {versions.kubernetes}, KEDA {versions.keda}, in {folder}"
    sys.stdout.write("\n".join([where, *(one.text() for one in compared)]) + "\n")
    if os.environ.get("KEEP"):
        for kind in kinds:
            _keep(kind, folder)
    return 1 if any(one.changed for one in compared) else 0


def _compared(kind: str, folder: Path) -> Compared:
    if kind == "traces":
        found: dict[str, list[str]] = json.loads((folder / "traces.json").read_text())
        return compare(kind, trace_outcomes({name: [] for name in found}), trace_outcomes(found))
    outcomes, file = _OUTCOMES[kind], KEPT[kind]
    return compare(kind, outcomes(read_oracle(DATA / file)), outcomes(read_oracle(folder / file)))


def _keep(kind: str, folder: Path) -> None:
    if kind == "traces":
        traces.keep(folder / TRACES, DATA / TRACES)
    else:
        shutil.copy(folder / KEPT[kind], DATA / KEPT[kind])


if __name__ == "__main__":
    sys.exit(main())
