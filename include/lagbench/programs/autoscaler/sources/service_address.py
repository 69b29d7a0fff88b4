"""Where a Service of the embedded bench is reached: names in a cluster mean nothing outside it."""

from __future__ import annotations

import re

from lagbench.programs.autoscaler.cluster import SERVICE, Cluster, ClusterError

# localkube writes the loopback port of each Service port into an annotation of the Service.
_PORT_ANNOTATION = "lagbench.io/port-"
_LOOPBACK = "127.0.0.1"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SERVICE_ADDRESS = re.compile(
    rf"(?P<name>{_LABEL})\.(?P<namespace>{_LABEL})(?:\.svc(?:\.[-a-z0-9.]+)?)?:(?P<port>[0-9]+)"
)


def dialled_address(address: str, cluster: Cluster) -> str:
    """Return the loopback address behind ``name.namespace[.svc[...]]:port``, else ``address``.

    ``ClusterError`` when the API server does not say whether there is such a Service.
    """
    match = _SERVICE_ADDRESS.fullmatch(address)
    if match is None:
        return address
    try:
        service = cluster.get(SERVICE, (match["namespace"], match["name"]))
    except ClusterError as error:
        if error.is_not_found:
            return address
        raise
    annotations = service["metadata"].get("annotations") or {}
    for port in (service.get("spec") or {}).get("ports") or []:
        if port["port"] == int(match["port"]):
            number = annotations.get(f"{_PORT_ANNOTATION}{port.get('name') or port['port']}")
            return address if number is None else f"{_LOOPBACK}:{number}"
    return address
