"""lagbench rehearses traffic spikes against an autoscaled Kafka consumer group."""

__version__ = "0.1.0"
