"""Effects at the edge: Kafka, the Kubernetes API, files, processes."""
