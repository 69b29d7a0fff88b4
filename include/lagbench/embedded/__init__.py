"""The bench on one machine: a real Kafka broker and localkube, owned by one supervisor."""
