"""The report of a run: one self-contained HTML file, rebuilt from the run folder alone."""
