"""``python -m tests.cluster.stability``: one lag history, several controllers, side by side.

``… run HISTORY FILE`` offers it for three minutes and writes what each controller did. It runs
inside the rig: ``python -m tests.cluster.rig python -m tests.cluster.stability run step FILE``.
``… table FILE…`` prints the recorded files as Markdown.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from tests.cluster.stability.histories import HISTORIES
from tests.cluster.stability.offer import offer
from tests.cluster.stability.table import table

_WRONG = 2


def main(arguments: list[str]) -> int:
    """Return the exit code."""
    match arguments:
        case ["run", history, target] if history in HISTORIES:
            with tempfile.TemporaryDirectory(prefix="lagbench-stability-") as folder:
                recorded = offer(HISTORIES[history](), Path(folder), Path(os.environ["KUBECONFIG"]))
            text = json.dumps({"history": history, **recorded}, separators=(",", ":"))
            Path(target).write_text(f"{text}\n", encoding="utf-8")
            return 0
        case ["table", *paths] if paths:
            loaded = [json.loads(Path(path).read_text(encoding="utf-8")) for path in paths]
            sys.stdout.write("\n".join(table(item) for item in loaded))
            return 0
    sys.stderr.write(f"{__doc__}HISTORY is one of {', '.join(HISTORIES)}\n")
    return _WRONG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
