"""Where triggers get their values: Kafka and external scalers."""
