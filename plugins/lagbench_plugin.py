"""Register the bench with an Airflow that has this folder, unless it is installed, too."""

from importlib.metadata import entry_points

if "lagbench" not in entry_points(group="airflow.plugins").names:
    from lagbench_airflow.airflow_plugin import LagbenchPlugin  # noqa: F401 - Airflow looks for it
