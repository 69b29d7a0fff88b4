"""Find the address of a Service of the embedded bench: cluster names do not resolve outside it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from lagbench.adapters.kube.cluster_protocol import SERVICE, Cluster, ClusterError
from lagbench.core.scenario import PORT_ANNOTATION

_LOOPBACK = "127.0.0.1"
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_SERVICE_ADDRESS = re.compile(
    rf"(?P<name>{_LABEL})\.(?P<namespace>{_LABEL})(?:\.svc(?:\.[-a-z0-9.]+)?)?:(?P<port>[0-9]+)"
)

_HTTP_PORT = 80


def dialled_url(url: str, cluster: Cluster) -> str:
    """Return the URL with the loopback address behind its Service; without one, the URL itself.

    A Service of the bench speaks no TLS, so that an https URL stays.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # of a URL that is none each poll fails
        return url
    if parts.scheme != "http" or "@" in parts.netloc:
        return url
    address = parts.netloc if ":" in parts.netloc else f"{parts.netloc}:{_HTTP_PORT}"
    dialled = dialled_address(address, cluster)
    return url if dialled == address else parts._replace(netloc=dialled).geturl()


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
            number = annotations.get(f"{PORT_ANNOTATION}{port.get('name') or port['port']}")
            return address if number is None else f"{_LOOPBACK}:{number}"
    return address
