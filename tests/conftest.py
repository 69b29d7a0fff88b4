"""What every test shares."""

from __future__ import annotations

import logging

# py4j logs the end of its connections at interpreter exit, when pytest has closed the streams.
logging.getLogger("py4j").setLevel(logging.ERROR)
