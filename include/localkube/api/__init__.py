"""The HTTP side of localkube: requests, answers, discovery, tables."""
