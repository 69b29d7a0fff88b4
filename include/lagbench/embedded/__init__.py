"""The bench on one machine: a real Kafka broker and localkube as child processes of a supervisor."""
