"""Fixtures of all tests."""

from __future__ import annotations

import logging
import signal

from hypothesis import settings

from tests.cluster.rig_fixture import program_image, rig, rig_broker, spark_image

__all__ = [
    "program_image",
    "rig",
    "rig_broker",
    "spark_image",
]  # for suites that need a real Kubernetes

# py4j logs the end of its connections at interpreter exit, when pytest has closed the streams.
logging.getLogger("py4j").setLevel(logging.ERROR)

# A shell starts background jobs with SIGINT ignored, and children inherit that: then no Ctrl-C of
# these tests would reach the command. A handler of our own is reset to the default in each child.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes depends on what else the machine does: no timings in tests.
settings.register_profile("without timings", deadline=None)
settings.load_profile("without timings")
