"""What a run recorded, on one clock, and whether it can be trusted."""
