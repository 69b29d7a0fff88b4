"""Judge SLOs on measures."""
