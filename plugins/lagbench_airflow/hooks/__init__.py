"""Where the bench's Kafka and Kubernetes are, read from Airflow's connections."""
