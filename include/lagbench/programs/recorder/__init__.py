"""The observer: what Kafka and Kubernetes say of a run, once a second, gaps included."""
