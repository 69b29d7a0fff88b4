"""The needs of a cell, known before it starts."""

from lagbench.core.plan.machine_needs import cannot_carry, cores_needed
from lagbench.core.plan.plan import Plan, disk_bytes, plan_cell, table_bytes
from lagbench.core.plan.spark_needs import check_spark_fit

__all__ = [
    "Plan",
    "cannot_carry",
    "check_spark_fit",
    "cores_needed",
    "disk_bytes",
    "plan_cell",
    "table_bytes",
]
