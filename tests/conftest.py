"""What every test shares."""

from __future__ import annotations

import logging

from tests.cluster.rig_fixture import rig

__all__ = ["rig"]  # a fixture of the suites that need a real Kubernetes

# py4j logs the end of its connections at interpreter exit, when pytest has closed the streams.
logging.getLogger("py4j").setLevel(logging.ERROR)
