"""Judge an experiment by its pairs, and show the result."""
