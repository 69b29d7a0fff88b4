"""Apache Iggy's binary protocol."""
