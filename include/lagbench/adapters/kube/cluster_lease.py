"""The Lease by which one Airflow at a time rehearses in a cluster's namespace.

The rule is in ``lagbench.core.cluster.lease``; here it is read and written. Each answer of the API
server brings its clock along. The embedded bench takes none: it has a lock of files.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from contextlib import suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lagbench.adapters.kube.kube_client import translated
from lagbench.core.cluster.lease import (
    LEASE,
    LeaseClaim,
    Standing,
    claimed_lease,
    held_message,
    lease_record,
    lease_standing,
)
from lagbench.core.kubernetes_values import NS_PER_SECOND
from lagbench.errors import NotReady
from lagbench.project import make_state_dir

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from lagbench.adapters.kube.kube import Kube

_LOOKS = 5
"""Each lost race is another Airflow that has just written: the next look usually says held."""
_REQUEST_TIMEOUT_SECONDS = 10.0
Found = dict[str, Any]


class ClusterLease:
    """The Lease of a namespace, as one Airflow sees it."""

    def __init__(self, kube: Kube, holder: str) -> None:
        """Act as ``holder``; nothing is asked of the server yet."""
        self._kube = kube
        self._holder = holder

    def require_free(self) -> None:
        """Look, and write nothing.

        :raises NotReady: another Airflow holds it.
        """
        self._look()

    def acquire(self, run_id: str, *, duration_seconds: int) -> None:
        """Take the Lease, or renew it, for the longest that the run can take."""
        claim = LeaseClaim(self._holder, run_id, duration_seconds)
        for _ in range(_LOOKS):
            found, now_ns = self._look()
            if self._write(found, claimed_lease(found, claim, now_ns)):
                return
        raise NotReady(
            f"Lease/{LEASE} in namespace {self._kube.namespace} changed at each of {_LOOKS} "
            "attempts to take it: other Airflows want it too. Try again"
        )

    def release(self) -> bool:
        """Delete the Lease; False if it is no longer this Airflow's (it is left as it is)."""
        from kubernetes.client import ApiException

        found, _ = self._read()
        if found is None or lease_record(found).holder != self._holder:
            return False
        metadata = found["metadata"]
        seen = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
        with self._translated("delete"):
            try:
                self._api().delete_namespaced_lease(
                    LEASE,
                    self._kube.namespace,
                    body={"preconditions": seen},
                    _request_timeout=_REQUEST_TIMEOUT_SECONDS,
                )
            except ApiException as error:
                if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                    return False
                raise
        return True

    def _look(self) -> tuple[Found | None, int]:
        """Return the Lease and the server's clock; reject one that another Airflow holds."""
        found, now_ns = self._read()
        if found is not None:
            record = lease_record(found)
            if lease_standing(record, self._holder, now_ns) is Standing.HELD:
                raise NotReady(held_message(record, self._kube.namespace))
        return found, now_ns

    def _read(self) -> tuple[Found | None, int]:
        from kubernetes.client import ApiException

        with self._translated("read"):
            try:
                answer = self._api().read_namespaced_lease(
                    LEASE,
                    self._kube.namespace,
                    _preload_content=False,
                    _request_timeout=_REQUEST_TIMEOUT_SECONDS,
                )
            except ApiException as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
                return None, self._clock_ns(error.headers or {})
        return json.loads(answer.data), self._clock_ns(answer.headers)

    def _write(self, found: Found | None, wanted: Found) -> bool:
        """Create or replace the Lease; False if another Airflow was faster."""
        from kubernetes.client import ApiException

        api, namespace = self._api(), self._kube.namespace
        how: dict[str, Any] = {"_request_timeout": _REQUEST_TIMEOUT_SECONDS}
        with self._translated("take"):
            try:
                if found is None:
                    api.create_namespaced_lease(namespace, wanted, **how)
                else:
                    api.replace_namespaced_lease(LEASE, namespace, wanted, **how)
            except ApiException as error:
                # 404: the one that was found is gone, or its namespace; the next look tells.
                if error.status == HTTPStatus.CONFLICT:
                    return False
                if error.status == HTTPStatus.NOT_FOUND and found is not None:
                    return False
                raise
        return True

    def _clock_ns(self, headers: Mapping[str, str]) -> int:
        """Return the API server's clock, in whole seconds."""
        said = headers.get("Date")
        if said is None:
            raise NotReady(
                f"{self._host} answered without a Date header, so it is unknown whether "
                f"Lease/{LEASE} has expired. Check the proxies in front of the API server"
            )
        return int(parsedate_to_datetime(said).timestamp()) * NS_PER_SECOND

    def _api(self) -> Any:
        from kubernetes.client import CoordinationV1Api

        return CoordinationV1Api(self._kube.api_client)

    @property
    def _host(self) -> str:
        return str(self._kube.api_client.configuration.host)

    def _translated(self, what: str) -> AbstractContextManager[None]:
        return translated(f"{what} Lease/{LEASE}", self._host)


HOLDER_NAME = "lagbench_lease_holder"
"""The Airflow Variable."""
HOLDER_VARIABLE = f"AIRFLOW_VAR_{HOLDER_NAME.upper()}"
"""The same as Airflow reads it from its environment."""


def new_holder() -> str:
    """Return a unique name that shows where it was created."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


def stored_holder(state_dir: Path) -> str:
    """Return the name of the Airflow of a state folder; it is made once.

    One in the environment wins, as it does in Airflow.
    """
    given = os.environ.get(HOLDER_VARIABLE)
    if given:
        return given
    path = state_dir / "lease-holder"
    make_state_dir(state_dir)
    with suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
        file.write(new_holder())
    found = path.read_text(encoding="utf-8").strip()
    if not found:
        raise NotReady(f"{path} is empty: the disk was full when it was created. Delete it")
    return found
