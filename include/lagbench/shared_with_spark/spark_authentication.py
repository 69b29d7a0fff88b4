"""How the processes of one Spark know each other: by a secret, without which no message is read."""

from __future__ import annotations

SECRET_VARIABLE = "_SPARK_AUTH_SECRET"  # noqa: S105 - a name
"""Spark's own: daemons read it, and workers hand it to their executors. Never ``-D`` or ``--conf``:
each user of the machine sees command lines."""
SECRET_SETTING = "spark.authenticate.secret"  # noqa: S105 - a name
"""A driver needs it beside the variable, unless its master is ``local`` or ``k8s``."""
AUTHENTICATED = {
    "spark.authenticate": "true",
    # A driver sends its settings to its executors, and the secret is one of them.
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.cipher": "AES/GCM/NoPadding",
}
"""Settings of every process, which may be on a command line."""
