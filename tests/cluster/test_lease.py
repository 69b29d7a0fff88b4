"""Setup: the rig. The Lease of a namespace under the real API server's rules.

``tests/unit/adapters/kube/test_cluster_lease.py`` has the cases; here is what only the server can
say: it takes the object, brings its clock along, and lets one of many that want it at once win.
``test_down.py`` has the Lease of a killed run.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from lagbench.adapters.kube.cluster_lease import ClusterLease
from lagbench.adapters.kube.kube import Kube
from lagbench.core.cluster.lease import LEASE
from lagbench.errors import NotReady
from tests.cluster.cluster_rehearsal import kubectl
from tests.cluster.rig.rig import Rig

SPACE = "lease"
AIRFLOWS = 6


@pytest.fixture(scope="module", autouse=True)
def namespace(rig: Rig) -> Iterator[None]:
    """Provide a namespace without anything of a run."""
    kubectl(rig, "create", "namespace", SPACE)
    yield
    kubectl(rig, "delete", "namespace", SPACE, "--wait=false")


def test_it_is_taken_renewed_and_given_back(rig: Rig) -> None:
    """The server takes the object; a renewal keeps the instant of taking; then there is none."""
    kube = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=SPACE)
    here = ClusterLease(kube, "here")

    here.acquire("a", duration_seconds=3600)
    taken = _times(rig)
    here.acquire("a", duration_seconds=1800)
    renewed = _times(rig)
    with pytest.raises(NotReady, match=r"here \(run a\)"):
        ClusterLease(kube, "there").require_free()

    assert renewed[0] == taken[0] == taken[1] <= renewed[1]
    assert here.release()
    assert not here.release()
    assert kubectl(rig, "-n", SPACE, "get", "leases", "-o=name") == ""
    kube.close()


@pytest.mark.parametrize("is_there", [False, True])
def test_one_of_many_gets_it(rig: Rig, is_there: bool) -> None:
    """All look at the same instant and then write: one has it, and the others are told which."""
    start = Barrier(AIRFLOWS)
    first = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=SPACE)
    if is_there:
        ClusterLease(first, "dead").acquire("old", duration_seconds=1)
        first.wait_until(
            lambda _: _is_expired(first), timeout_seconds=120, what="the Lease to expire"
        )

    def want(holder: str) -> str | None:
        kube = Kube.from_kubeconfig(str(rig.kubeconfig), namespace=SPACE)
        lease = ClusterLease(kube, holder)
        lease.require_free()
        start.wait(timeout=180)
        try:
            lease.acquire(f"run-of-{holder}", duration_seconds=3600)
        except NotReady as refused:
            return str(refused)
        finally:
            kube.close()
        return None

    holders = [f"airflow-{number}" for number in range(AIRFLOWS)]
    with ThreadPoolExecutor(AIRFLOWS) as pool:
        answers = dict(zip(holders, pool.map(want, holders), strict=True))

    (winner,) = [holder for holder, refusal in answers.items() if refusal is None]
    assert all(winner in refusal for refusal in answers.values() if refusal is not None)
    assert ClusterLease(first, winner).release()
    first.close()


def _is_expired(kube: Kube) -> bool:
    try:
        ClusterLease(kube, "nobody").require_free()
    except NotReady:
        return False
    return True


def _times(rig: Rig) -> list[str]:
    fields = "-o=jsonpath={.spec.acquireTime} {.spec.renewTime}"
    return kubectl(rig, "-n", SPACE, "get", "lease", LEASE, fields).split()
