"""The ``lagbench`` command: use the bench without knowledge of Airflow."""

from lagbench.cli.app import main

__all__ = ["main"]
