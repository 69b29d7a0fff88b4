"""Find the kinds of an API server for the official dynamic client.

Discovery is cached in memory only: the library's default is a file that is shared by host and port,
and localkube's port belongs to another server the next day.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

# A file that cannot exist: the library then reads no cache and does not mind that it writes none.
_NO_CACHE_FILE = f"{os.devnull}/none"


class KubeKinds:
    """The kinds of an API server; several threads may use them."""

    def __init__(self, api_client: ApiClient) -> None:
        """Use ``api_client``; the server is asked at the first call of ``resource``."""
        self._api_client = api_client
        self._dynamic: Any = None
        self._lock = threading.Lock()

    def resource(self, api_version: str, kind: str) -> Any:
        """Return the dynamic client's resource of a kind."""
        with self._lock:
            if self._dynamic is None:
                from kubernetes.dynamic import DynamicClient

                self._dynamic = DynamicClient(self._api_client, cache_file=_NO_CACHE_FILE)
            return self._dynamic.resources.get(api_version=api_version, kind=kind)
