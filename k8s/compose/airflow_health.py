"""Exit 0 when Airflow's API server calls a component healthy: ``airflow_health.py scheduler``.

One question over HTTP; `airflow jobs check` costs 3 s of CPU each time.
"""  # noqa: INP001 - a script of the container, no module

from __future__ import annotations

import json
import sys
from http.client import HTTPConnection, HTTPException

SERVER = "airflow-api-server:8080"


def main(component: str, server: str = SERVER) -> int:
    """Return the exit code."""
    connection = HTTPConnection(server, timeout=6)
    try:
        connection.request("GET", "/api/v2/monitor/health")
        status = json.loads(connection.getresponse().read())[component]["status"]
    except (OSError, HTTPException, ValueError, KeyError) as error:
        sys.stderr.write(f"{component}: {error!r}\n")
        return 1
    finally:
        connection.close()
    sys.stdout.write(f"{component}: {status}\n")
    return 0 if status == "healthy" else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
