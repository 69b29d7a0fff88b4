"""Find the kinds of an API server for the official dynamic client.

Discovery is cached in a private folder for the life of the object: the library's default cache is
shared by host and port, and localkube's port belongs to another server the next day.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.client import ApiClient


class KubeKinds:
    """The kinds of an API server; several threads may use them."""

    def __init__(self, api_client: ApiClient) -> None:
        """Use ``api_client``; the server is asked at the first call of ``resource``."""
        self._api_client = api_client
        self._cache = tempfile.TemporaryDirectory(prefix="lagbench-kube-")
        self._dynamic: Any = None
        self._lock = threading.Lock()

    def resource(self, api_version: str, kind: str) -> Any:
        """Return the dynamic client's resource of a kind."""
        with self._lock:
            if self._dynamic is None:
                from kubernetes.dynamic import DynamicClient

                cache_file = str(Path(self._cache.name) / "discovery.json")
                self._dynamic = DynamicClient(self._api_client, cache_file=cache_file)
            return self._dynamic.resources.get(api_version=api_version, kind=kind)

    def close(self) -> None:
        """Remove the cache."""
        self._cache.cleanup()
