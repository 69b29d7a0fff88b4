"""The name under which this Airflow holds a cluster's Lease."""

from __future__ import annotations

from airflow.sdk import Variable

from lagbench.adapters.kube.lease_holder import HOLDER_NAME, new_holder


def lease_holder() -> str:
    """Return the Airflow Variable, which all tasks on all hosts share; it is created once.

    An Airflow that ``lagbench`` started has the name in its environment.
    """
    found: str | None = Variable.get(HOLDER_NAME, default=None)
    if found:
        return found
    made = new_holder()
    Variable.set(HOLDER_NAME, made, description="The name of this Airflow in a cluster's Lease")
    return made
