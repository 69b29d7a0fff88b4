"""The sources of triggers' values: Kafka, Prometheus and external scalers."""
