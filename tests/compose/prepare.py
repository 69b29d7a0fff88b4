"""``python -m tests.compose.prepare``: make all that the suite needs, as far as it is not there.

No engine is started: eight minutes of building and one of fetching that something else can use.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from lagbench.errors import NotReady
from tests.cluster.rig.go_command import BuildFailed
from tests.cluster.rig.program_image import ImageFailed
from tests.compose.engine.debian_programs import UnpackFailed, unpack_programs
from tests.compose.engine.go_programs import build_go_programs
from tests.compose.engine.needs import problem
from tests.compose.stand_ins.images import prepare_parts


def prepare(say: Callable[[str], object]) -> str | None:
    """Fetch and build what is cached; return what went wrong, or None."""
    reason = problem()
    if reason is not None:
        return f"not ready: {reason}"
    try:
        unpack_programs()
        prepare_parts()
        build_go_programs(say)
    except (BuildFailed, ImageFailed, NotReady, UnpackFailed) as error:
        return f"the engine could not be prepared: {error}"
    return None


if __name__ == "__main__":
    sys.exit(prepare(lambda line: sys.stdout.write(f"{line}\n")))
