"""The HPA controller: what it reads, and its syncs."""
