"""From a run folder's tables to measures, verdict and comparison."""
