"""The bench's operators, sensors, triggers and hooks for Airflow."""
