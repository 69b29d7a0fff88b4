"""Run Airflow for the embedded bench from outside; lagbench itself never imports it."""
