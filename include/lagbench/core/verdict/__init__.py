"""SLOs, judged on measures."""
