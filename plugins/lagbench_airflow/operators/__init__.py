"""Tasks that change the bench or judge a run."""
