"""The needs of a cell, known before it starts."""

from lagbench.core.plan.machine_needs import cannot_carry, cores_needed
from lagbench.core.plan.plan import Plan, disk_bytes, plan_cell

__all__ = [
    "Plan",
    "cannot_carry",
    "cores_needed",
    "disk_bytes",
    "plan_cell",
]
