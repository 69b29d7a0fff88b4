"""``python -m tests.cluster.rig --with-broker python -m tests.cluster.record.live FOLDER KIND…``.

Records webhook answers and traces beside a running rig into ``FOLDER``.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from tests.cluster.live_admission import LiveApi
from tests.cluster.record import traces, webhook
from tests.cluster.record.files import DATA, KEPT, TRACES, write_document
from tests.cluster.rig.versions import pinned
from tests.conformance.comparison import read_oracle


def main(arguments: list[str]) -> None:
    """Record each kind."""
    folder, kinds = Path(arguments[0]), arguments[1:]
    kubeconfig, versions = Path(os.environ["KUBECONFIG"]), pinned()
    if "webhook" in kinds:
        kept = read_oracle(DATA / KEPT["webhook"])
        answers = webhook.ask_again(kept, LiveApi(kubeconfig), versions)
        write_document(folder / KEPT["webhook"], answers)
    if "traces" in kinds:
        found = traces.record(
            DATA / TRACES,
            folder / TRACES,
            kubeconfig=kubeconfig,
            servers=os.environ["KAFKA_BOOTSTRAP_SERVERS"],
            log=kubeconfig.parent.parent / "logs" / "kube-controller-manager.log",
            versions=versions,
        )
        (folder / "traces.json").write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
