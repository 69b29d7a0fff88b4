"""Reach the bench's Kafka and Kubernetes through Airflow's connections."""
