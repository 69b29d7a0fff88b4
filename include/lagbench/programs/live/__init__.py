"""Follow a run while it goes on, into ``live.jsonl`` of its folder."""
