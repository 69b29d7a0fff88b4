"""Share among the programs of all pods: flags, log, health, errors, clock, Kafka settings."""
