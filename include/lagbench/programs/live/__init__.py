"""Follow a run while it is in progress, into ``live.jsonl`` of its folder."""
