"""``python -m tests.cluster.rig.prepare``: make all that a rig needs, as far as it is not there.

Nothing is started: ten minutes of building and two of fetching that something else can use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from tests.cluster.rig.binaries import build_all
from tests.cluster.rig.go_command import BuildFailed
from tests.cluster.rig.network import problem
from tests.cluster.rig.program_image import ImageFailed, prepare_layers
from tests.cluster.rig.spark_image import prepare_spark_layers


def prepare(say: Callable[[str], object]) -> str | None:
    """Build the programs and the layers of their image; return what went wrong, or None.

    It needs the network, so it comes before the namespaces, which have none.
    """
    reason = problem()
    if reason is not None:
        return f"not ready: {reason}"
    try:
        prepare_layers()
        prepare_spark_layers()
        build_all(say)
    except (BuildFailed, ImageFailed) as error:
        return f"the rig could not be prepared: {error}"
    return None


if __name__ == "__main__":
    try:
        sys.exit(prepare(lambda line: sys.stdout.write(f"{line}\n")))
    except KeyboardInterrupt:
        sys.exit("stopped; what is whole stays, and the next call makes the rest")
