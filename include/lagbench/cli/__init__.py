"""The ``lagbench`` command: the bench without Airflow knowledge."""

from lagbench.cli.app import main

__all__ = ["main"]
