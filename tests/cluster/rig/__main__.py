"""``python -m tests.cluster.rig [--with-programs] [--with-broker] [COMMAND…]``.

Brings the rig up, runs the command against it, and ends everything. The command sees KUBECONFIG
and finds kubectl; without one it is a shell. SIGUSR1 to RIG_PID restarts KEDA's operator.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.rig.binaries import build_all
from tests.cluster.rig.network import enter, is_inside, problem
from tests.cluster.rig.rig import Rig
from tests.cluster.rig_fixture import broker_for_pods


def main(arguments: list[str]) -> int:
    """Return the command's exit code."""
    given = _parser().parse_args(arguments)
    if not is_inside():
        reason = problem()
        if reason is not None:
            _say(f"not ready: {reason}")
            return 3
        build_all(_say)
        enter([sys.executable, "-m", "tests.cluster.rig", *arguments])
    with tempfile.TemporaryDirectory(prefix="lagbench-rig-") as folder, ExitStack() as running:
        began = time.monotonic()
        rig = Rig.up(Path(folder), build_all(_say))
        running.callback(rig.down)
        environment = {
            **os.environ,
            "KUBECONFIG": str(rig.kubeconfig),
            "RIG_PID": str(os.getpid()),
            "PATH": f"{rig.binaries.folder}{os.pathsep}{os.environ['PATH']}",
        }
        if given.with_programs:
            _say(f"imported {rig.import_programs()}")
        if given.with_broker:
            broker = running.enter_context(broker_for_pods(Path(folder) / "broker"))
            environment["KAFKA_BOOTSTRAP_SERVERS"] = broker.bootstrap_servers
        _say(f"rig up in {time.monotonic() - began:.1f} s")
        signal.signal(signal.SIGUSR1, lambda *_: rig.restart_keda_operator())
        wanted = given.command or [os.environ.get("SHELL", "bash")]
        return subprocess.call(wanted, env=environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.rig", allow_abbrev=False)
    parser.add_argument(
        "--with-programs", action="store_true", help="import the image of lagbench's programs"
    )
    parser.add_argument(
        "--with-broker", action="store_true", help="run Kafka; KAFKA_BOOTSTRAP_SERVERS names it"
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what to run against the rig")
    return parser


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
