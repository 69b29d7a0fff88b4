"""One engine and one stack for all tests of the suite; both end with the session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compose.engine.engine import Engine
from tests.compose.engine.needs import problem
from tests.compose.rehearsal import Rehearsed, rehearse
from tests.compose.stack import Stack
from tests.compose.stand_ins.images import build_stand_ins


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """Provide a running engine without images."""
    if (reason := problem()) is not None:
        pytest.fail(f"no engine can run here: {reason}")
    running = Engine.new()
    try:
        running.start()
        yield running
    finally:
        running.stop()


@pytest.fixture(scope="session")
def images(engine: Engine) -> Stack:
    """Provide the stack with all images built; from then on nothing is fetched."""
    stack = Stack(engine)
    with engine.packages_reachable():
        build_stand_ins(engine)
        stack.build()
    return stack


@pytest.fixture(scope="session")
def stack(images: Stack) -> Stack:
    """Provide the services, all healthy."""
    images.up()
    return images


@pytest.fixture(scope="session")
def rehearsed(stack: Stack) -> Rehearsed:
    """Provide what was seen of one rehearsal."""
    return rehearse(stack)
