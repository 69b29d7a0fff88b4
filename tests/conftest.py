"""What every test shares."""

from __future__ import annotations

import logging

from tests.cluster.rig_fixture import program_image, rig, rig_broker

__all__ = ["program_image", "rig", "rig_broker"]  # for suites that need a real Kubernetes

# py4j logs the end of its connections at interpreter exit, when pytest has closed the streams.
logging.getLogger("py4j").setLevel(logging.ERROR)
