"""What the programs of a run record, and how the records are encoded."""
